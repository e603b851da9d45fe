/** Payloads of an exact size. */

const LETTERS = 'abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-_';

/**
 * Returns valid ASCII JSON of exactly `bodyBytes` bytes; the same size and seed give the same text.
 *
 * The filler is pseudo-random, because Postgres compresses large values: repetition would flatter every figure.
 * @param bodyBytes 1 or more; sizes too small for an object give a number with that many digits
 * @param seed a whole number; k6 passes the VU id, so that VUs send different bytes
 */
export function payloadOf(bodyBytes: number, seed: number): string {
  if (!Number.isInteger(bodyBytes) || bodyBytes < 1)
    throw new RangeError(`A payload size of ${bodyBytes} bytes is not allowed; the minimum is 1.`);
  const head = `{"sender":"k6","seed":${seed},"filler":"`;
  const tail = '"}';
  const fillerBytes = bodyBytes - head.length - tail.length;
  return fillerBytes < 0 ? '1'.repeat(bodyBytes) : head + filler(fillerBytes, seed) + tail;
}

/** A linear congruential generator (constants of Numerical Recipes); its upper six bits select the letter. */
function filler(length: number, seed: number): string {
  const letters: string[] = new Array(length);
  let state = seed >>> 0;
  for (let i = 0; i < length; i++) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    letters[i] = LETTERS.charAt(state >>> 26);
  }
  return letters.join('');
}
