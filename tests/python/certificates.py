"""A certificate authority and certificates that it signs, made with `openssl`, for tests of TLS."""

import pathlib
import subprocess


class Authority:
    def __init__(self, folder: pathlib.Path, name: str = "authority") -> None:
        self._folder = folder
        self._name = name
        self.certificate = folder / f"{name}.crt"
        self._run("req", "-x509", "-days", "2", "-subj", f"/CN={name}", "-out", self.certificate, *self._new_key(name))

    def _new_key(self, name: str) -> list[object]:
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        return [*key, "-keyout", self._folder / f"{name}.key"]

    @staticmethod
    def _run(*words: object) -> None:
        subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, timeout=120)

    def sign(self, name: str) -> tuple[pathlib.Path, pathlib.Path]:
        """A certificate for localhost and its key."""
        request, certificate = (self._folder / f"{name}.{kind}" for kind in ("csr", "crt"))
        names = self._folder / f"{name}.names"
        names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        self._run("req", "-subj", f"/CN={name}", "-out", request, *self._new_key(name))
        self._run(
            *("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self._folder / f"{self._name}.key"),
            *("-CAcreateserial", "-days", "2", "-extfile", names, "-out", certificate),
        )
        return certificate, self._folder / f"{name}.key"
