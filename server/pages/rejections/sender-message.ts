/** What an operator writes to the sender of a rejected request that only the sender can fix. */
import type { Success } from '../../manage/api/operation.ts';
import type { Operations } from '../../manage/api/operations.ts';
import { reasonTitle } from '../../model/signatures/diagnosis/titles.ts';
import { sentence, utc } from '../show.ts';

type Rejection = Success<Operations['showRejection']['answers']>['body'];

/** Instead of the hint of a reason, where the hint says what the operator can do. */
const toSender: Partial<Record<Rejection['reason'], string>> = {
  header_missing: 'The request carries no signature. Sign each request with the secret of the webhook.',
  secret_sent:
    'A header contains the secret itself, which is exposed now. Sign the body with the new secret that you get from us, instead of sending it.',
  signature_encoding:
    'The signature is right, but encoded in another way (hex, base64) than agreed. Correct the encoding.',
  clock_apart:
    'The signature is valid, but its time is too far from the clock of the server. Set the clock of the sending machine, and sign a repeated request with the current time.',
  secret_undecoded:
    'The signature was made with the characters of the secret. Decode the secret (base64 after whsec_, or hex) before you sign with it.',
  url_differs: 'The signature was made for another URL. Use the URL above exactly.',
  secret_unset:
    'The signature was made with an empty or undefined secret. Check whether your setting for the secret is read.',
  scheme_other:
    'The signature is of another scheme than the webhook expects. Let us know by which scheme you sign, so that we can set it.',
};

/** @param apiUrl base of the URLs of webhooks, without a slash at the end */
export function senderMessage(rejection: Rejection, apiUrl: string): string {
  const { webhook_id, batch, received_at, last_check, expected_headers } = rejection;
  const { reason, hint } = last_check ?? rejection;
  const url = `${apiUrl}/in/${webhook_id}${batch ? '/batch' : ''}`;
  const where =
    reason === 'header_missing' && expected_headers.length > 0
      ? ` The signature is expected in the header ${expected_headers.join(' or ')}.`
      : '';
  return [
    `The request to ${url} at ${utc(received_at)} got a 403 response: its signature did not verify.`,
    `${sentence(reasonTitle(reason))}: ${toSender[reason] ?? hint}${where}`,
    'Please send the request again after the change.',
  ].join('\n\n');
}
