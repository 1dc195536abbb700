// Where a page's blocks come from: script elements of the page, or the server that the page came from.

/** What is kept of a block that was read: its bytes; only what they can be read from again; or nothing, since it is read once. */
export type Keep = "bytes" | "source" | "nothing";

export interface BlockSource {
  bytes(name: string, keep?: Keep): Promise<Uint8Array>;
}

async function inflated(bytes: Uint8Array): Promise<Uint8Array> {
  const stream = new Blob([bytes as BlobPart]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function fromBase64(text: string): Uint8Array {
  const native = (Uint8Array as unknown as { fromBase64?: (text: string) => Uint8Array }).fromBase64;
  if (native) return native.call(Uint8Array, text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; ++i) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

abstract class RememberedBlocks implements BlockSource {
  private readonly read = new Map<string, Promise<Uint8Array>>();

  bytes(name: string, keep: Keep = "bytes"): Promise<Uint8Array> {
    const known = this.read.get(name);
    if (known) return known;
    const found = this.take(name, keep);
    if (keep === "bytes") this.read.set(name, found);
    return found;
  }
  protected abstract take(name: string, keep: Keep): Promise<Uint8Array>;
}

/** Blocks in the page itself. An element that is not read again is removed, so that its text can be released. */
class EmbeddedBlocks extends RememberedBlocks {
  protected async take(name: string, keep: Keep): Promise<Uint8Array> {
    let element = document.getElementById(name);
    if (!element && document.readyState === "loading") {
      await new Promise((resolve) => document.addEventListener("DOMContentLoaded", resolve, { once: true }));
      element = document.getElementById(name);
    }
    if (!element) throw new Error(`the file has no block ${name}: it is incomplete`);
    const bytes = fromBase64(element.textContent ?? "");
    if (keep !== "source") element.remove();
    return inflated(bytes);
  }
}

/** Blocks of the server that the page came from. */
class ServedBlocks extends RememberedBlocks {
  constructor(private readonly folder: string) {
    super();
  }

  protected async take(name: string): Promise<Uint8Array> {
    const response = await fetch(this.folder + name);
    if (!response.ok) throw new Error(`the server answers ${response.status} for the block ${name}`);
    return inflated(new Uint8Array(await response.arrayBuffer()));
  }
}

/** Where the blocks of this page are. */
export function pageBlocks(): BlockSource {
  const folder = document.querySelector<HTMLMetaElement>('meta[name="vram-blocks"]')?.content;
  return folder ? new ServedBlocks(folder) : new EmbeddedBlocks();
}

export async function json<T>(source: BlockSource, name: string): Promise<T> {
  return JSON.parse(new TextDecoder().decode(await source.bytes(name))) as T;
}
