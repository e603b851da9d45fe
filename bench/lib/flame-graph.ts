/** A flame graph as one SVG file without scripts: a frame's width is its share of the samples, its `title` names it and the share. */

/** A function in the context of its callers. */
interface Frame {
  name: string;
  /** Samples in this function or in what it called. */
  samples: number;
  callees: Map<string, Frame>;
}

export function newFrame(name: string): Frame {
  return { name, samples: 0, callees: new Map() };
}

/** Deeper frames are left out: perf follows a broken stack for hundreds of frames. */
const DEPTH_MAX = 60;

/** Counts one sample. @param stack names of the frames, the outermost first */
export function addSample(root: Frame, stack: readonly string[]): void {
  let frame = root;
  frame.samples++;
  for (const name of stack.slice(0, DEPTH_MAX)) {
    const callee = frame.callees.get(name) ?? newFrame(name);
    frame.callees.set(name, callee);
    callee.samples++;
    frame = callee;
  }
}

/**
 * Adds the samples of `perf script -F comm,ip,sym`: per sample a line with the thread's name, then a line `ADDRESS SYMBOL` for each frame, the
 * innermost first, then an empty line. The thread's name becomes the outermost frame.
 */
export function addPerfScript(root: Frame, text: string): void {
  for (const sample of text.split('\n\n')) {
    const [thread = '', ...frames] = sample.trim().split('\n');
    if (frames.length > 0)
      addSample(root, [thread.trim(), ...frames.map((line) => line.trim().replace(/^[0-9a-f]+ /, '')).reverse()]);
  }
}

const WIDTH = 1_600;
const ROW = 17;
const TOP = 34;
/** Narrower frames are left out. */
const NARROWEST = 1.5;
const CHARACTER = 6.6;
const NAME_CHARACTERS = 120;

/** Draws the frames upwards from the root at the bottom, siblings in alphabetical order. */
export function drawFlameGraph(root: Frame, title: string): string {
  const rects: string[] = [];
  let depthMost = 0;
  const draw = (frame: Frame, x: number, depth: number): void => {
    const width = (frame.samples / root.samples) * WIDTH;
    if (width < NARROWEST) return;
    depthMost = Math.max(depthMost, depth);
    rects.push(rect(frame, { x, width, depth, share: frame.samples / root.samples }));
    let left = x;
    for (const callee of [...frame.callees.values()].sort((a, b) => (a.name < b.name ? -1 : 1))) {
      draw(callee, left, depth + 1);
      left += (callee.samples / root.samples) * WIDTH;
    }
  };
  draw(root, 0, 0);
  const bottom = TOP + depthMost * ROW;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${bottom + ROW + 6}" font-family="monospace" font-size="11">
<title>${escaped(title)}</title>
<rect width="100%" height="100%" fill="#fff"/>
<text x="6" y="20" font-size="14">${escaped(title)}</text>
<g transform="translate(0 ${bottom})">
${rects.join('\n')}
</g>
</svg>
`;
}

function rect(
  { name, samples }: Frame,
  { x, width, depth, share }: { x: number; width: number; depth: number; share: number },
): string {
  const shown = name.slice(0, NAME_CHARACTERS);
  const room = Math.floor((width - 4) / CHARACTER);
  const label = room < 3 ? '' : shown.length <= room ? shown : `${shown.slice(0, room - 1)}…`;
  const at = `x="${x.toFixed(1)}" y="${-depth * ROW}"`;
  return (
    `<g><title>${escaped(shown)}: ${(share * 100).toFixed(2)} % (${samples} samples)</title>` +
    `<rect ${at} width="${width.toFixed(1)}" height="${ROW - 1}" fill="${colourOf(name)}"/>` +
    `${label === '' ? '' : `<text x="${(x + 3).toFixed(1)}" y="${12 - depth * ROW}">${escaped(label)}</text>`}</g>`
  );
}

/** JavaScript by its tier (`*` optimised, `^` baseline, `~` interpreted), native code otherwise. */
function colourOf(name: string): string {
  if (/^(JS:)?\*/.test(name)) return '#8fd19e';
  if (/^(JS:)?[~^]/.test(name)) return '#f5d76e';
  if (/^Builtins_/.test(name)) return '#a7c7e7';
  return '#f2b29b';
}

function escaped(text: string): string {
  return text.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;').replace(/"/g, '&quot;');
}
