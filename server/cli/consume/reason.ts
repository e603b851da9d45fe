/** The failure reason of a command, which the server stores with the delivery. */
import { stripVTControlCharacters } from 'node:util';

/** The API accepts 500. */
const REASON_CHARACTERS_MAX = 400;

/** Part of stderr that is kept; a longer last line is truncated at its start. */
const TAIL_BYTES_MAX = 4_096;

/** Keeps the end of a command's output. */
export class LastLine {
  #tail = Buffer.alloc(0);

  add(chunk: Buffer): void {
    this.#tail = Buffer.concat([this.#tail, chunk]).subarray(-TAIL_BYTES_MAX);
  }

  /** The last non-empty line without control characters; an empty string when there is none. */
  text(): string {
    const lines = stripVTControlCharacters(this.#tail.toString('utf8')).split(/[\r\n]+/);
    return (
      lines
        .map((line) => line.replace(/\p{Cc}+/gu, ' ').trim())
        .filter((line) => line !== '')
        .at(-1) ?? ''
    );
  }
}

/** Formats `exit 3: last line`, or `signal SIGKILL: …`. */
export function failureReason(end: { code: number | null; signal: string | null }, lastLine: string): string {
  const how = end.code === null ? `signal ${end.signal}` : `exit ${end.code}`;
  return bounded(lastLine === '' ? how : `${how}: ${lastLine}`);
}

/** Truncates between characters, never inside one. */
function bounded(text: string): string {
  if (text.length <= REASON_CHARACTERS_MAX) return text;
  const cut = text.slice(0, REASON_CHARACTERS_MAX - 1);
  return `${/[\uD800-\uDBFF]$/.test(cut) ? cut.slice(0, -1) : cut}…`;
}
