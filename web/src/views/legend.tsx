// The groups of the chosen dimension at the chosen moment: the legend of the timeline, and the list of holders.
import type { App } from "../app/app";
import { useStore } from "../app/store";
import { colourOf, theme } from "../charts/palette";
import { bytes, count } from "../format";
import { t } from "../texts";

const MAX_ROWS = 200;

export function Legend({ app }: { app: App }) {
  const state = useStore(app.store);
  const names = app.groups(state.dimension);
  const held = app.heldAt(state.position, state.dimension);
  const total = held.reduce((sum, group) => sum + group.requested, 0);
  const colours = theme();
  return (
    <aside class="legend" aria-label={t("Holders at the chosen moment")}>
      <div class="legend-head">
        <select
          aria-label={t("Stack by")}
          value={state.dimension}
          onChange={(event) => app.store.set({ dimension: Number(event.currentTarget.value), highlight: null })}
        >
          {app.model.head.dimensions.map(({ id }, index) => (
            <option key={id} value={index} data-id={id}>
              {t("by {0}", app.dimensionName(index))}
            </option>
          ))}
        </select>
        <span class="total">{bytes(total)}</span>
      </div>
      <ol>
        {held.slice(0, MAX_ROWS).map(({ group, requested, count: blocks }) => (
          <li key={group} data-bytes={requested}>
            <button
              type="button"
              class={state.highlight === group ? "group is-chosen" : "group"}
              aria-pressed={state.highlight === group}
              title={
                blocks === 1
                  ? t("{0}: {1} in 1 block", names[group].slice(0, 300), bytes(requested))
                  : t("{0}: {1} in {2} blocks", names[group].slice(0, 300), bytes(requested), count(blocks))
              }
              onClick={() => app.store.set({ highlight: state.highlight === group ? null : group })}
            >
              <span class="swatch" style={{ background: colourOf(group, colours) }} />
              <bdi class="name">{names[group]}</bdi>
              <span class="bytes">{bytes(requested)}</span>
              <span class="share" style={{ width: `${total > 0 ? (requested / total) * 100 : 0}%` }} />
            </button>
          </li>
        ))}
      </ol>
      {held.length > MAX_ROWS && <p class="more">{held.length === MAX_ROWS + 1 ? t("1 other") : t("{0} others", count(held.length - MAX_ROWS))}</p>}
    </aside>
  );
}
