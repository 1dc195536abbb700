// Paper is white: pages are printed in the light colours. To be called before canvases exist, which draw themselves again for printing, so
// that they find the colours changed.

export function printInLightColours(): void {
  const root = document.documentElement;
  let before: string | undefined;
  addEventListener("beforeprint", () => {
    before = root.dataset.theme;
    root.dataset.theme = "light";
  });
  addEventListener("afterprint", () => {
    if (before === undefined) delete root.dataset.theme;
    else root.dataset.theme = before;
  });
}
