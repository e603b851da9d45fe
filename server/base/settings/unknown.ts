/** Names of variables that look like settings and are not: a typo silently leaves the default. */
import { settingTable } from './table.ts';

export interface UnknownSetting {
  name: string;
  /** The setting whose name differs by one character; null: none. */
  meant: string | null;
}

/** Variables of commands, of the programs that commands run, and of tests. */
const OTHER_NAMES =
  /^WEIR_(SECRET|TOKEN|URL|CREDENTIAL|PRIVATE_KEY|ATTEMPT|CONTENT_TYPE|(DELIVERY|EVENT|REQUEST|WEBHOOK)_ID|EVENT_TYPE|HEADERS|RECEIVED_AT|WEBHOOK_NAME|TEST_\w+)$/;
/** What Kubernetes sets for a Service that is named weir. */
const SERVICE_LINK = /^WEIR_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$/;
/** A short name, such as HOST, has neighbours that other programs use. */
const CHARACTERS_MIN = 6;

/** The variables, of any kind, that begin with WEIR_ or are one character away from a setting. */
export function unknownSettings(variables: Iterable<string>): UnknownSetting[] {
  const settings = Object.keys(settingTable);
  return [...variables].flatMap((name): UnknownSetting[] => {
    if (Object.hasOwn(settingTable, name) || OTHER_NAMES.test(name) || SERVICE_LINK.test(name)) return [];
    const isOwn = name.startsWith('WEIR_');
    const given = isOwn ? name.slice('WEIR_'.length) : name;
    const meant = settings.find((setting) => (isOwn && setting === given) || isNear(given, setting)) ?? null;
    return isOwn || meant !== null ? [{ name, meant }] : [];
  });
}

/** What an operator reads of it. */
export function describeUnknown({ name, meant }: UnknownSetting): string {
  return meant === null ? name : `${name} (${meant}?)`;
}

/** One character inserted, left out, changed, or exchanged with the next. */
function isNear(given: string, setting: string): boolean {
  if (Math.min(given.length, setting.length) < CHARACTERS_MIN || given === setting) return false;
  const [short, long] = given.length <= setting.length ? [given, setting] : [setting, given];
  if (long.length - short.length > 1) return false;
  let at = 0;
  while (at < short.length && short[at] === long[at]) at++;
  if (long.length > short.length) return short.slice(at) === long.slice(at + 1);
  const isExchanged = short[at] === long[at + 1] && short[at + 1] === long[at];
  return short.slice(at + 1) === long.slice(at + 1) || (isExchanged && short.slice(at + 2) === long.slice(at + 2));
}
