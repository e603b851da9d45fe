/** Keeps methods of strings fast in a serving process. */

/** V8 acts on a load only after a function has run often enough to collect feedback; 20 calls were enough on Node 20 and 24. */
const LOADS = 1_000;

/**
 * A class of ioredis extends String. Because of such a class V8 turns String.prototype into a dictionary (slow mode), and turns it back
 * only when a member of a String object is read. Until then every method call and every `length` of a string is a look-up, 2 of 38 us of the
 * event loop for each request (bench/NOTES.md). Call it when all modules are loaded.
 */
export function restoreStringMethods(): void {
  const text = new String('');
  for (let i = 0; i < LOADS; i++) methodOf(text);
}

function methodOf(text: Pick<string, 'charCodeAt'>): unknown {
  return text.charCodeAt;
}
