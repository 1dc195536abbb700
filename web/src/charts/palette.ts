// Colours of groups: Paul Tol's and Okabe-Ito's colour-blind safe hues, ordered so that neighbours differ in lightness, in a set
// for light and one for dark backgrounds. The last one is for all further groups together.
import { SHOWN_GROUPS } from "../data/overview";

const LIGHT = ["#4477aa", "#ee8866", "#44aa99", "#ddb84d", "#aa4499", "#77bbdd", "#cc6677", "#66994d", "#8877cc", "#b5bd61", "#882255"];
const DARK = ["#5b8fc7", "#e6855e", "#3fae9b", "#d3b04a", "#b65ba8", "#79b8d8", "#cf6f80", "#7bab62", "#9a8cdb", "#a9b15a", "#a8467a"];

export interface Theme {
  isDark: boolean;
  groups: string[];
  rest: string;
  ink: string;
  muted: string;
  grid: string;
  surface: string;
  accent: string;
  danger: string;
}

const light: Theme = {
  isDark: false,
  groups: LIGHT,
  rest: "#b9bec6",
  ink: "#1c2733",
  muted: "#5c6875",
  grid: "#e4e8ec",
  surface: "#ffffff",
  accent: "#1a5fb4",
  danger: "#c01c28",
};
const dark: Theme = {
  isDark: true,
  groups: DARK,
  rest: "#5a636e",
  ink: "#e8ecf1",
  muted: "#98a4b1",
  grid: "#29313a",
  surface: "#14181d",
  accent: "#7db4f5",
  danger: "#ff7b82",
};

/** The theme in use: the reader's choice, else the system's. */
export function theme(): Theme {
  const chosen = document.documentElement.dataset.theme;
  const isDark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  return isDark ? dark : light;
}

/** The colour of a group by its rank; those after the shown ones are the rest. */
export function colourOf(group: number, of: Theme): string {
  return group < SHOWN_GROUPS ? of.groups[group] : of.rest;
}

/** A colour on another, with this share of it. Both as #rrggbb. */
export function blended(colour: string, on: string, share: number): string {
  const part = (text: string, at: number) => Number.parseInt(text.slice(at, at + 2), 16);
  const mixed = [1, 3, 5].map((at) => Math.round(part(colour, at) * share + part(on, at) * (1 - share)));
  return `rgb(${mixed.join(" ")})`;
}
