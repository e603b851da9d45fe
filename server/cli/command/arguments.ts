/** Argument parsers shared by several commands. They throw InvalidArgumentError, which commander reports; parseAddress throws CommandError. */
import { InvalidArgumentError } from 'commander';
import { CommandError } from '../../base/command/io.ts';
import { instant } from '../../model/fields.ts';
import { isUuid } from '../../store/ids.ts';

/** Parses an id; returns it in lower case. */
export function uuid(text: string): string {
  if (!isUuid(text)) throw new InvalidArgumentError('Give an id of the form 2f1c0d7e-….');
  return text.toLowerCase();
}

/** Parses one id of a repeatable option. @param before ids that were given before it */
export function uuids(text: string, before: string[] = []): string[] {
  return [...before, uuid(text)];
}

/** Parses an ISO 8601 time, in UTC if it has no time zone; a date is its midnight. */
export function time(text: string): string {
  const result = instant.safeParse(/^\d{4}-\d\d-\d\d$/.test(text) ? `${text}T00:00:00Z` : text);
  if (!result.success) throw new InvalidArgumentError(result.error.issues[0]!.message);
  return result.data;
}

/** Parses an http or https URL. Throws CommandError (usage). */
export function parseAddress(address: string): URL {
  const url = URL.canParse(address) ? new URL(address) : null;
  if (url === null || !/^https?:$/.test(url.protocol))
    throw new CommandError(`${JSON.stringify(address)} is not an http or https URL.`, 2);
  return url;
}

/** Returns a parser for whole numbers from `min` to `max`, both inclusive. */
export function wholeNumber(max = 999_999_999, min = 1): (given: string) => number {
  return (given) => {
    const value = /^\d{1,10}$/.test(given) ? Number(given) : -1;
    if (value >= min && value <= max) return value;
    throw new InvalidArgumentError(`Give a whole number from ${min} to ${max}.`);
  };
}
