/** Numbers in words, for sentences. */

const spans = [
  ['day', 86_400],
  ['hour', 3_600],
  ['minute', 60],
] as const;

/** `90 seconds`, `2 minutes`, `3 hours`: in the largest unit of which there are at least two, rounded down. */
export function inWords(seconds: number): string {
  for (const [unit, length] of spans) {
    if (seconds === length) return counted(1, unit);
    if (seconds >= 2 * length) return counted(Math.floor(seconds / length), unit);
  }
  return counted(Math.floor(seconds), 'second');
}

/** `0.4 GiB` */
export function inGib(bytes: number): string {
  return `${(bytes / 2 ** 30).toFixed(1)} GiB`;
}

/** `0.4 MiB` */
export function inMib(bytes: number): string {
  return `${(bytes / 2 ** 20).toFixed(1)} MiB`;
}

/** `1,234 events` */
export function counted(value: number, one: string, many = `${one}s`): string {
  return `${value.toLocaleString('en')} ${value === 1 ? one : many}`;
}
