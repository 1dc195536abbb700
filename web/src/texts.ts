// The texts of the pages, by their English form, with {0} for values. Their translations are in po/, from which
// `tools/web.py build` writes translations.json. In a table, t() marks a text, since the language is set later, and t() translates it when
// it is shown. Texts that come with the data (findings, advice) are written by the program in the language of its messages.
import translations from "./translations.json";


const CHINESE: Record<string, string> = translations.zh_CN;

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
