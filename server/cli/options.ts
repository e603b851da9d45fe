/** Readers of arguments that several commands take; what is wrong is a CommandError of exit code 2. */
import { CommandError } from './io.ts';

/** An http or https address. */
export function parseAddress(address: string): URL {
  const url = URL.canParse(address) ? new URL(address) : null;
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new CommandError(`${JSON.stringify(address)} is no http or https address.`, 2);
  return url;
}

/** A reader of whole numbers from `min` to `max`, both included. */
export function wholeNumber(option: string, max: number, min = 1): (given: string) => number {
  return (given) => {
    const value = /^\d{1,10}$/.test(given) ? Number(given) : -1;
    if (value >= min && value <= max) return value;
    throw new CommandError(`${option} is ${JSON.stringify(given)}; allowed: a whole number from ${min} to ${max}.`, 2);
  };
}
