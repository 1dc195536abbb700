// All texts of the pages, by their English form. A translation maps the same keys; `{0}` stands for a value. Texts that come with
// the data (findings, advice) are written by the program in the language of its messages.

const CHINESE: Record<string, string> = {};

export type Language = "en" | "zh";
let language: Language = "en";

export function setLanguage(to: Language): void {
  language = to;
}
export const currentLanguage = (): Language => language;

export function t(text: string, ...values: (string | number)[]): string {
  const found = language === "zh" ? (CHINESE[text] ?? text) : text;
  return found.replace(/\{(\d)\}/g, (_, index: string) => String(values[Number(index)]));
}
