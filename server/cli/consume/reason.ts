/** Why a command failed, as the server stores it with the delivery. */
import { stripVTControlCharacters } from 'node:util';

/** The API takes 500. */
const REASON_CHARACTERS_MAX = 400;

/** Of a command's stderr; a longer last line is told by its end. */
const TAIL_BYTES_MAX = 4_096;

/** Keeps the end of what a command says. */
export class LastLine {
  #tail = Buffer.alloc(0);

  add(chunk: Buffer): void {
    this.#tail = Buffer.concat([this.#tail, chunk]).subarray(-TAIL_BYTES_MAX);
  }

  /** The last line that holds anything, without control characters; empty when there is none. */
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

/** `exit 3: what it said`, or `signal SIGKILL: …`. */
export function failureReason(end: { code: number | null; signal: string | null }, lastLine: string): string {
  const how = end.code === null ? `signal ${end.signal}` : `exit ${end.code}`;
  return bounded(lastLine === '' ? how : `${how}: ${lastLine}`);
}

/** Cuts between characters, never inside one. */
function bounded(text: string): string {
  if (text.length <= REASON_CHARACTERS_MAX) return text;
  const cut = text.slice(0, REASON_CHARACTERS_MAX - 1);
  return `${/[\uD800-\uDBFF]$/.test(cut) ? cut.slice(0, -1) : cut}…`;
}
