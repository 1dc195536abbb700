// The state that all views share. Views read it with useStore() and change it with set(); links restore it (link.ts).
import { useEffect, useState } from "preact/hooks";
import type { AxisMode } from "../data/axis";

export interface State {
  view: string;
  recording: number; // of the page's recordings
  device: number; // of its devices
  dimension: number; // of the device's dimensions
  axis: AxisMode;
  window: [number, number] | null; // on the axis; null: everything
  position: number; // the chosen moment
  range: [number, number] | null; // positions, for growth
  highlight: number | null; // a group of the dimension
  map: "moment" | "time"; // what the memory map shows
  block: number | null; // the chosen one
  query: string;
  help: boolean;
  problem: string; // why blocks could not be read
  loaded: number; // counts what was loaded after the first picture, so that views draw again
}

export class Store<T extends object = State> {
  private readonly listeners = new Set<() => void>();
  constructor(private state: T) {}

  get(): T {
    return this.state;
  }
  set(change: Partial<T>): void {
    this.state = { ...this.state, ...change };
    for (const listener of [...this.listeners]) listener();
  }
  subscribe(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

export function useStore<T extends object>(store: Store<T>): T {
  const [state, setState] = useState(store.get());
  useEffect(() => store.subscribe(() => setState(store.get())), [store]);
  return state;
}
