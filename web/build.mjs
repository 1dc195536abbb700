// Bundles the pages: `node build.mjs` writes dist/report.html, `node build.mjs --check` fails if it would differ.
// The page has its script and style inline. Its Content-Security-Policy names their hashes and admits nothing else.
import { createHash } from "node:crypto";
import { readFile, writeFile, mkdir } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
export const MAX_BYTES = 150_000; // of script and style

async function bundle(entry) {
  const result = await build({
    absWorkingDir: here,
    entryPoints: [entry],
    bundle: true,
    minify: true,
    write: false,
    format: "iife",
    target: ["chrome111", "firefox115", "safari16.4"],
    jsx: "automatic",
    jsxImportSource: "preact",
    legalComments: "none",
    charset: "utf8",
    outdir: "dist",
  });
  const text = (suffix) => result.outputFiles.find((file) => file.path.endsWith(suffix))?.text ?? "";
  // An end tag inside a string would end the element.
  return { script: text(".js").replaceAll("</script", "<\\/script"), style: text(".css") };
}

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

async function page(name, title, mark) {
  const { script, style } = await bundle(`src/${name}.tsx`);
  const bytes = Buffer.byteLength(script) + Buffer.byteLength(style);
  if (bytes > MAX_BYTES) throw new Error(`${name}: ${bytes} bytes of script and style; ${MAX_BYTES} is the limit`);
  const template = await readFile(`${here}src/${name}.html`, "utf8");
  const policy = [
    "default-src 'none'",
    `script-src ${hash(script)}`,
    `style-src ${hash(style)}`,
    "connect-src 'self'",
    "img-src data:",
    "base-uri 'none'",
    "form-action 'none'",
  ].join("; ");
  const replaced = template
    .replace("@POLICY@", () => policy)
    .replace("@TITLE@", () => title)
    .replace("@STYLE@", () => style)
    .replace("@SCRIPT@", () => script);
  return { name, bytes, text: replaced, mark };
}

const pages = [await page("report", "vram report"), await page("dashboard", "vram serve")];
let differs = false;
for (const { name, bytes, text } of pages) {
  const file = `${here}dist/${name}.html`;
  if (process.argv.includes("--check")) {
    const found = await readFile(file, "utf8").catch(() => "");
    if (found !== text) {
      console.error(`web/dist/${name}.html differs from what its sources give: run tools/web.py build, and commit it`);
      differs = true;
    }
  } else {
    await mkdir(`${here}dist`, { recursive: true });
    await writeFile(file, text);
  }
  console.log(`${name}.html: ${bytes} bytes of script and style`);
}
process.exit(differs ? 1 : 0);
