// The tab: a list of the recordings of the log directory, and the page of the selected one in a frame of its own origin.

function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) {
    bytes /= 1024;
    ++unit;
  }
  return `${unit && bytes < 100 ? bytes.toFixed(1) : Math.round(bytes)} ${units[unit]}`;
}

const label = (each) => `${each.name} (${size(each.bytes)}, ${new Date(each.mtime_ms).toLocaleString()})`;

function note({ logdir, is_limited, recordings }) {
  if (recordings.length === 0) {
    return logdir
      ? `No recordings in ${logdir}: files that end in .vtrace, .pickle or .pkl. vram.record() writes one.`
      : "TensorBoard runs without --logdir, so there is no folder with recordings.";
  }
  return is_limited ? "The folder has more recordings; these are the latest of those that were found." : "";
}

export async function render() {
  const list = element("select", { ariaLabel: "recording" });
  const refresh = element("button", { textContent: "Refresh" });
  const message = element("span", {});
  const frame = element("iframe", { title: "vram report", hidden: true, referrerPolicy: "no-referrer" });
  frame.setAttribute("sandbox", "allow-scripts");

  function open() {
    frame.hidden = !list.value;
    if (list.value) frame.src = `./page?recording=${encodeURIComponent(list.value)}`;
  }

  async function load() {
    const before = list.value;
    try {
      const answer = await (await fetch("./recordings")).json();
      const { recordings } = answer;
      list.replaceChildren(...recordings.map((each) => element("option", { value: each.name, textContent: label(each) })));
      message.textContent = note(answer);
      if (recordings.some((each) => each.name === before)) list.value = before;
      list.hidden = recordings.length === 0;
    } catch (error) {
      message.textContent = `The recordings cannot be listed: ${error.message}`;
      return;
    }
    open();
  }

  list.addEventListener("change", open);
  refresh.addEventListener("click", load);
  const bar = element("div", {}, list, " ", refresh, " ", message);
  bar.style.cssText = "flex: none; padding: 6px 10px; font: 14px system-ui, sans-serif; background: #fff; color: #222";
  frame.style.cssText = "flex: auto; width: 100%; border: 0";
  document.documentElement.style.height = "100%";
  document.body.style.cssText = "display: flex; flex-direction: column; height: 100%; margin: 0";
  document.body.append(bar, frame);
  await load();
}
