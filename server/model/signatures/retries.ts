/** Whether senders repeat requests that were not accepted, in sentences for people. */
import { presetNamed } from './presets.ts';

/** For all senders together. */
export const SOME_RETRY = 'Some senders repeat refused requests, others do not.';

/** The sentence for the sender of a scheme. It is short, so that a fix can follow. */
export function retriesText(scheme: string): string {
  const preset = presetNamed(scheme);
  if (preset === undefined || preset.isGeneral) return SOME_RETRY;
  const { title, retries } = preset;
  if (retries === undefined) return `Whether ${title} repeats requests is not documented here.`;
  const { repeats, redeliver } = retries;
  const again = redeliver === undefined ? '' : `; it sends them again on request (${redeliver})`;
  if (repeats === null) return `${title} does not repeat refused requests${again}.`;
  return `${title} repeats refused requests ${repeats}${again}.`;
}

/** Whether a request that is refused is lost, so far as is known. */
export function losesRefused(scheme: string): boolean {
  return presetNamed(scheme)?.retries?.repeats === null;
}
