/**
 * Names of segment files. A name states when and by which process the file was created, for which cell, and its state.
 *
 *     open ──the drain takes it──▶ draining ──all its events are in the database──▶ removed
 *                                      └── a frame inside it is damaged: kept as damaged
 *     refused: events that the database refuses for their content, kept for the operator
 */
import { randomBytes } from 'node:crypto';

const segmentStates = ['open', 'draining', 'damaged', 'refused'] as const;
type SegmentState = (typeof segmentStates)[number];

export interface SegmentName {
  /** Name without the state. */
  stem: string;
  /** Unix milliseconds; no event in the file is older. */
  createdMs: number;
  /** In the name of a refused event: a part of its id. */
  pid: number;
  /** The cell of its events; 0: home. */
  cell: number;
  state: SegmentState;
}

/**
 * `v2` is the version of the file format. A release ignores names with a version that it does not know: it could not read the head of such a
 * file, would find no frame in it, and would remove it.
 */
const shape = /^((\d{13})-(\d+)-[0-9a-f]{8}-v2(?:-c([1-9]\d{0,3}))?)\.([a-z]+)$/;

/** A name that no other process uses, also on a machine with several process namespaces. */
export function newStem(nowMs: number, cell = 0): string {
  const unique = `${String(Math.floor(nowMs)).padStart(13, '0')}-${process.pid}-${randomBytes(4).toString('hex')}`;
  return `${unique}-v2${cell === 0 ? '' : `-c${cell}`}`;
}

/** The stem of a file with this event alone: the time of the id, then its random bits in place of the process and the random part. */
export function stemOfEvent(id: Buffer): string {
  return `${String(id.readUIntBE(0, 6)).padStart(13, '0')}-${id.readUInt32BE(8)}-${id.toString('hex', 12)}-v2`;
}

/** `STEM.STATE`, without the folder. */
export function fileName(stem: string, state: SegmentState): string {
  return `${stem}.${state}`;
}

/** Reads the name of a segment file; null: the file is not a segment, or has an unknown version. */
export function parseName(name: string): SegmentName | null {
  const [, stem, created, pid, cell, state] = shape.exec(name) ?? [];
  if (stem === undefined || !segmentStates.includes(state as SegmentState)) return null;
  return {
    stem,
    createdMs: Number(created),
    pid: Number(pid),
    cell: Number(cell ?? 0),
    state: state as SegmentState,
  };
}

/** True while the events of the file wait for the database. */
export function isWaiting({ state }: SegmentName): boolean {
  return state === 'open' || state === 'draining';
}
