// Details next to the pointer.
export interface TooltipContent {
  x: number;
  y: number;
  title: string;
  rows: { name: string; value: string; colour?: string; isMain?: boolean }[];
}

const WIDTH = 300;

export function Tooltip({ content }: { content: TooltipContent | null }) {
  if (!content) return null;
  const isRight = content.x > WIDTH + 40;
  const style = isRight
    ? { left: `${content.x - 14}px`, top: `${content.y + 14}px`, transform: "translateX(-100%)" }
    : { left: `${content.x + 14}px`, top: `${content.y + 14}px` };
  return (
    <div class="tooltip" role="tooltip" style={style}>
      <div class="tooltip-title">{content.title}</div>
      <dl>
        {content.rows.map((row, index) => (
          <div key={index} class={row.isMain ? "is-main" : ""}>
            <dt>
              {row.colour && <span class="swatch" style={{ background: row.colour }} />}
              <bdi>{row.name.length > 120 ? `${row.name.slice(0, 120)}…` : row.name}</bdi>
            </dt>
            <dd>{row.value}</dd>
          </div>
        ))}
      </dl>
    </div>
  );
}
