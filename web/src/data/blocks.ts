// Where a page's blocks come from: script elements of the page, or the server that the page came from.

export interface BlockSource {
  bytes(name: string): Promise<Uint8Array>;
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

/** Blocks in the page itself. An element is removed once it is read, so that its text can be released. */
class EmbeddedBlocks implements BlockSource {
  private readonly read = new Map<string, Promise<Uint8Array>>();

  bytes(name: string): Promise<Uint8Array> {
    let found = this.read.get(name);
    if (!found) {
      found = this.take(name);
      this.read.set(name, found);
    }
    return found;
  }

  private async take(name: string): Promise<Uint8Array> {
    let element = document.getElementById(name);
    if (!element && document.readyState === "loading") {
      await new Promise((resolve) => document.addEventListener("DOMContentLoaded", resolve, { once: true }));
      element = document.getElementById(name);
    }
    if (!element) throw new Error(`the file has no block ${name}: it is incomplete`);
    const bytes = fromBase64(element.textContent ?? "");
    element.remove();
    return inflated(bytes);
  }
}

/** Blocks of the server that the page came from. */
class ServedBlocks implements BlockSource {
  private readonly read = new Map<string, Promise<Uint8Array>>();
  constructor(private readonly folder: string) {}

  bytes(name: string): Promise<Uint8Array> {
    let found = this.read.get(name);
    if (!found) {
      found = this.fetch(name);
      this.read.set(name, found);
    }
    return found;
  }

  private async fetch(name: string): Promise<Uint8Array> {
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
