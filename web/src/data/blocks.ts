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
export class EmbeddedBlocks implements BlockSource {
  private readonly read = new Map<string, Promise<Uint8Array>>();

  static has(name: string): boolean {
    return document.getElementById(name) !== null;
  }

  bytes(name: string): Promise<Uint8Array> {
    let found = this.read.get(name);
    if (!found) {
      const element = document.getElementById(name);
      if (!element) return Promise.reject(new Error(`the file has no block ${name}: it is incomplete`));
      found = inflated(fromBase64(element.textContent ?? ""));
      element.remove();
      this.read.set(name, found);
    }
    return found;
  }
}

export async function json<T>(source: BlockSource, name: string): Promise<T> {
  return JSON.parse(new TextDecoder().decode(await source.bytes(name))) as T;
}
