/** Parsers of arguments that several commands take; commander tells their errors. */
import { InvalidArgumentError } from 'commander';
import { isUuid } from '../core/ids.ts';

export function uuid(text: string): string {
  if (!isUuid(text)) throw new InvalidArgumentError('an id looks like 2f1c0d7e-….');
  return text.toLowerCase();
}

/** For an option that may be given several times. */
export function uuids(text: string, before: string[] = []): string[] {
  return [...before, uuid(text)];
}

export function positive(text: string): number {
  if (!/^[1-9]\d{0,8}$/.test(text)) throw new InvalidArgumentError('a whole number of at least 1 is needed.');
  return Number(text);
}

export function seconds(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('a whole number of seconds is needed.');
  return Number(text);
}
