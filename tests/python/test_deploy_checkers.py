"""deploy/, checked by its consumers: systemd, Kubernetes's schemas, Grafana's types, Prometheus's relabelling.

VRAM_BINARY names the program under test, which the units start and the image contains.
"""

import copy
import enum
import json
import pathlib
import re
import shutil
import subprocess
import typing
from collections.abc import Iterator
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard
from program import BINARY, IS_SANITIZED, ROOT

DEPLOY = ROOT / "deploy"
UNITS = ("vram-serve.service", "vram-stress.service", "vram-stress.timer")
BOARDS = sorted((DEPLOY / "grafana").glob("*.json"))
# What deploy/README.md promises of the services, in tenths: systemd's measure goes from 0 to 10.
MOST_EXPOSED = 25
KUBERNETES = ("1.25", "1.37")  # the oldest and the newest whose schemas there are
BASE_PACKAGES = {"libc6", "libgcc-s1"}  # apt needs them: they are in Debian's image


def run(*words: object) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture(name="units")
def fixture_units(tmp_path: pathlib.Path) -> pathlib.Path:
    """The units in one folder, with the path of the program under test."""
    for name in UNITS:
        text = (DEPLOY / "systemd" / name).read_text()
        (tmp_path / name).write_text(text.replace("/usr/local/bin/vram ", f"{BINARY} "))
    return tmp_path


def with_systemd(test: typing.Callable[..., None]) -> typing.Callable[..., None]:
    mark = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="this machine has no systemd-analyze")
    marked: typing.Callable[..., None] = mark(test)
    return marked


@with_systemd
@pytest.mark.parametrize("name", UNITS)
def test_systemd_takes_a_unit_without_a_word(name: str, units: pathlib.Path) -> None:
    done = run("systemd-analyze", "verify", "--man=no", units / name)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@with_systemd
def test_systemd_finds_what_is_wrong_with_a_unit(units: pathlib.Path) -> None:
    """The check can fail: an option that there is not, and a program."""
    unit = units / UNITS[0]
    unit.write_text(unit.read_text().replace("ProtectClock=", "ProtectClocks=").replace(BINARY, "/no/vram"))
    done = run("systemd-analyze", "verify", "--man=no", unit)
    assert "ProtectClocks" in done.stderr
    assert "/no/vram" in done.stderr


@with_systemd
@pytest.mark.parametrize("name", UNITS[:2])
def test_systemd_finds_a_service_hardened(name: str, units: pathlib.Path) -> None:
    words = ("security", "--offline=true", f"--threshold={MOST_EXPOSED}", "--no-pager")
    done = run("systemd-analyze", *words, units / name)
    assert done.returncode == 0, done.stdout + done.stderr
    promised = f"{MOST_EXPOSED / 10} of 10"
    assert promised in (DEPLOY / "README.md").read_text()


def manifests() -> Iterator[dict[str, Any]]:
    for file in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        for manifest in yaml.safe_load_all(file.read_text()):
            if manifest["kind"] != "Kustomization":
                yield manifest


def patched(manifest: dict[str, Any], overlay: str) -> dict[str, Any]:
    """As `kubectl apply -k` makes it: overlays add to lists, and nothing else."""
    kustomization = yaml.safe_load((DEPLOY / "kubernetes" / overlay / "kustomization.yaml").read_text())
    assert kustomization["resources"] == [".."]
    manifest = copy.deepcopy(manifest)
    for patch in kustomization["patches"]:
        assert patch["target"] == {"kind": manifest["kind"], "name": manifest["metadata"]["name"]}
        for step in yaml.safe_load(patch["patch"]):
            *path, last = step["path"].strip("/").split("/")
            assert (step["op"], last) == ("add", "-")
            place: Any = manifest
            for key in path:
                place = place[int(key) if key.isdigit() else key]
            place.append(step["value"])
    return manifest


@pytest.mark.parametrize("release", KUBERNETES)
def test_kubernetes_takes_the_manifests(release: str) -> None:
    kinds = []
    for manifest in manifests():
        kinds.append(manifest["kind"])
        if manifest["apiVersion"].startswith("monitoring.coreos.com/"):
            continue  # the operator's, not of Kubernetes: test_prometheus_takes_what_the_pod_monitor_relabels
        variants = [manifest, patched(manifest, "mig")] if manifest["kind"] == "DaemonSet" else [manifest]
        for variant in variants:
            assert kubernetes_validate.validate(variant, release, strict=True) == release
        manifest["spec"]["podSelectors"] = {}
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(manifest, release, strict=True)
    assert sorted(kinds) == ["DaemonSet", "NetworkPolicy", "PodMonitor"]


def test_kustomize_takes_all_files_that_there_are() -> None:
    folder = DEPLOY / "kubernetes"
    (kustomization,) = yaml.safe_load_all((folder / "kustomization.yaml").read_text())
    resources = set(kustomization["resources"])
    assert resources | {"kustomization.yaml", "podmonitor.yaml"} == {file.name for file in folder.glob("*.yaml")}


def test_only_whoever_may_monitor_mig_asks_for_it() -> None:
    """NVIDIA's container toolkit refuses to start a container that asks for it without CAP_SYS_ADMIN."""
    daemonset = next(each for each in manifests() if each["kind"] == "DaemonSet")
    wanted = {"usual": (daemonset, False), "mig": (patched(daemonset, "mig"), True)}
    for name, (manifest, expected) in wanted.items():
        (container,) = manifest["spec"]["template"]["spec"]["containers"]
        asks = any(each["name"] == "NVIDIA_MIG_MONITOR_DEVICES" for each in container["env"])
        may = "SYS_ADMIN" in container["securityContext"]["capabilities"]["add"]
        assert (asks, may) == (expected, expected), name
    image = (DEPLOY / "container/Containerfile").read_text()
    assert "NVIDIA_MIG_MONITOR_DEVICES=" not in image


def test_the_policy_is_about_the_pods_and_their_port() -> None:
    policy, daemonset = (
        next(each for each in manifests() if each["kind"] == k) for k in ("NetworkPolicy", "DaemonSet")
    )
    assert policy["metadata"]["namespace"] == daemonset["metadata"]["namespace"]
    assert policy["spec"]["podSelector"] == daemonset["spec"]["selector"]
    ((port,),) = (rule["ports"] for rule in policy["spec"]["ingress"])
    (container,) = daemonset["spec"]["template"]["spec"]["containers"]
    assert port["port"] in {each["name"] for each in container["ports"]}
    assert "egress" not in policy["spec"]
    assert "Egress" in policy["spec"]["policyTypes"]


def test_a_driver_that_hangs_does_not_end_the_pod() -> None:
    daemonset = next(each for each in manifests() if each["kind"] == "DaemonSet")
    (container,) = daemonset["spec"]["template"]["spec"]["containers"]
    assert container["livenessProbe"]["tcpSocket"] == {"port": container["ports"][0]["name"]}
    assert re.search(r"@sha256:[0-9a-f]{64}$", container["image"])


def test_the_unit_has_nvidias_driver_loaded_before_device_files_are_allowed() -> None:
    unit = (DEPLOY / "systemd/vram-serve.service").read_text()
    for key in ("Wants", "After"):
        assert any("modprobe@nvidia.service" in line for line in re.findall(f"^{key}=(.*)", unit, re.MULTILINE)), key


def builders() -> list[str]:
    """Those that work: docker's program may be there without its daemon."""
    found = [each for each in ("podman", "docker", "buildah") if shutil.which(each)]
    return [each for each in found if run(each, "info").returncode == 0]


def test_the_image_is_built_and_starts() -> None:
    """As the DaemonSet starts it: without a right but the two."""
    usable = builders()
    if not usable:
        pytest.skip("this machine has no podman, docker or buildah that works")
    builder = usable[0]
    build = ["build", "-f", DEPLOY / "container/Containerfile", "-t", "vram-test", ROOT]
    done = subprocess.run(list(map(str, [builder, *build])), capture_output=True, text=True, check=False, timeout=3600)
    assert done.returncode == 0, done.stderr[-2000:]
    if builder == "buildah":
        return
    rights = ["--cap-drop", "ALL", "--cap-add", "SYS_PTRACE", "--cap-add", "DAC_READ_SEARCH", "--user", "0"]
    done = run(builder, "run", "--rm", "--read-only", *rights, "vram-test", "status", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"].startswith("vram.status/")


def test_prometheus_takes_what_the_pod_monitor_relabels(tmp_path: pathlib.Path) -> None:
    """The operator writes these settings into Prometheus's configuration under their names there."""
    monitor = next(each for each in manifests() if each["kind"] == "PodMonitor")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    known = {"port", "interval", "honorLabels", "authorization", "relabelings"}
    assert set(endpoint) == known
    relabelled = [
        {re.sub("[A-Z]", lambda letter: "_" + letter[0].lower(), key): value for key, value in step.items()}
        for step in endpoint["relabelings"]
    ]
    job = {
        "job_name": "vram",
        "honor_labels": endpoint["honorLabels"],
        "scrape_interval": endpoint["interval"],
        "relabel_configs": relabelled,
        "static_configs": [{"targets": ["127.0.0.1:9877"]}],
    }
    file = tmp_path / "prometheus.yml"
    file.write_text(yaml.safe_dump({"scrape_configs": [job]}))
    done = run("promtool", "check", "config", file)
    assert done.returncode == 0, done.stdout + done.stderr


def lost(ours: Any, theirs: Any, place: str) -> Iterator[str]:
    """Where what we wrote is not what was understood."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key, value in ours.items():
            yield from lost(value, theirs.get(key), f"{place}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from lost(mine, other, f"{place}[{number}]")
    elif ours != theirs:
        yield f"{place}: {ours!r}"


def foreign_words(value: Any, place: str) -> Iterator[str]:
    """Where Grafana has a list of words, and ours is none of them."""
    if isinstance(value, list):
        for number, each in enumerate(value):
            yield from foreign_words(each, f"{place}[{number}]")
    if not type(value).__module__.startswith("grafana_foundation_sdk"):
        return
    for name, hint in typing.get_type_hints(type(value)).items():
        held = getattr(value, name)
        kinds = [kind for kind in typing.get_args(hint) or (hint,) if isinstance(kind, type)]
        words = {word.value for kind in kinds if issubclass(kind, enum.Enum) for word in kind}
        if words and held is not None and str not in kinds and held not in words:
            yield f"{place}.{name}: {held!r}"
        yield from foreign_words(held, f"{place}.{name}")


def misunderstood(document: dict[str, Any]) -> list[str]:
    plugins.register_default_plugins()
    read = Dashboard.from_json(document)
    said = json.loads(JSONEncoder().encode(read))
    return [*lost(document, said, ""), *foreign_words(read, "")]


@pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.stem)
def test_grafana_understands_all_of_a_dashboard(board: pathlib.Path) -> None:
    document = json.loads(board.read_text())
    assert misunderstood(document) == []
    panel = document["panels"][-1]
    panel["datasourse"] = panel.pop("datasource")
    document["templating"]["list"][0]["type"] = "datasources"
    assert [each.split(":")[0] for each in misunderstood(document)] == [
        f".panels[{len(document['panels']) - 1}].datasourse",
        ".templating.list_val[0].type_val",
    ]


@pytest.mark.skipif(IS_SANITIZED, reason="sanitizers bring libraries of their own")
def test_the_image_has_the_libraries_of_the_program() -> None:
    """No image is built here; on the same system as the image's the program names what it needs."""
    containerfile = (DEPLOY / "container/Containerfile").read_text()
    system = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', pathlib.Path("/etc/os-release").read_text(), re.MULTILINE))
    image = f"FROM {system['ID']}:{system.get('VERSION_ID')}-slim\n"
    if image not in containerfile:
        pytest.skip("the image is made of another system than this one")
    assert "apt-get" not in containerfile.rsplit("FROM ", 1)[1]
    files = re.findall(r"=> (/\S+)", run("ldd", BINARY).stdout)
    real = [str(pathlib.Path(file).resolve()) for file in files]
    owners = run("dpkg", "-S", *real, *(file.removeprefix("/usr") for file in real)).stdout  # by one of both names
    assert set(re.findall(r"^([^:]+):", owners, re.MULTILINE)) == BASE_PACKAGES
