/**
 * Why a signature was refused and how to fix it, in one or two sentences for the sender or the operator. The guide's table is
 * generated from this table. The database domain rejection_reason has the same names.
 */
export const rejectionReasons = {
  header_missing:
    'The request carries no signature. The sender needs the secret of this webhook, and signs each request with it.',
  header_other:
    'The signature is in another header. Set the signature header of the webhook to that header, or send the signature in the header that the webhook expects.',
  header_repeated:
    'The signature header was sent more than once, which is ambiguous. Send it once, and check whether a proxy adds a second one.',
  secret_sent:
    'A header contains the secret itself. Rotate the secret, because it has been exposed, and have the sender sign the body with the new one instead of sending it.',
  malformed_empty:
    'The signature header is empty. Check whether the sender has the secret and writes the digest into the header.',
  malformed_no_prefix: 'The digest has no prefix. Write sha256= before the 64 hex digits.',
  malformed_prefix:
    'The prefix is not exactly sha256= (lower case, with an equals sign). Write sha256= and 64 hex digits.',
  malformed_around:
    'The header contains other text besides the signature. Remove quotes, spaces, lists and other text around sha256= and the 64 hex digits.',
  malformed_base64: 'The digest is encoded in base64. Write it as 64 hex digits after sha256=.',
  malformed_algorithm: 'The signature was made with another algorithm. Use HMAC-SHA256 and the prefix sha256=.',
  malformed_length:
    'The digest does not have 64 hex digits; it was truncated or computed with another algorithm. Send all 64 digits.',
  malformed:
    'The header does not contain a signature of the scheme of the webhook, or the scheme’s id or time is missing.',
  key_kind:
    'The signature was made with the other kind of key: a private key (v1a) where the webhook has a secret, or a secret (v1) where it has a public key. Set the public key to the sender’s whpk_… key, or remove it and set the secret.',
  signature_encoding:
    'The signature is right, but encoded in another way (hex, base64) than the scheme of the webhook says. Correct the encoding in the scheme definition, or at the sender.',
  clock_apart:
    'The signature is valid, but the time of the request was further from the clock of the server than the webhook allows. Set the clocks of both machines; raise the time tolerance of the webhook if the sender repeats old requests.',
  previous_secret:
    'The signature was made with the previous secret, whose overlap has ended. Give the sender the current secret; use a longer overlap for the next rotation.',
  other_webhook:
    'The signature was made with the secret of another webhook: the sender has exchanged two URLs or two secrets. Have it send to the webhook whose secret it has, or give it the secret of this webhook.',
  secret_space:
    'The sender’s secret differs from the webhook’s by spaces, a line end or quotes around it. Store exactly the same characters on both sides.',
  secret_decoded:
    'The sender decodes the secret from hex or base64 before it signs. Have it use the characters of the secret as they are, or set the secret of the webhook to the decoded value.',
  secret_undecoded:
    'The sender signed with the characters of the secret, and the scheme of the webhook decodes them first (base64 after whsec_, or hex). Have the sender decode the secret, or correct secret in the scheme definition.',
  secret_mode:
    'The signature does not match, and the body is an event of the sender’s test mode. Test mode has a secret of its own: give the webhook that one, or use a second webhook for test mode.',
  url_differs:
    'The sender signed another URL than the one that Weir builds from FRONTEND_PUBLIC_API_URL. Enter the webhook’s URL at the sender exactly as Weir shows it, or correct that setting.',
  secret_unset:
    'The sender signed with an empty or undefined secret. Check whether its setting for the secret is read.',
  not_hmac:
    'The digest is a plain SHA-256 of the body or of secret and body, or an HMAC with key and body exchanged. Compute HMAC-SHA256 with the secret as key and the body as message.',
  body_empty:
    'The digest was computed over an empty body. Sign the bytes that are sent, before other code reads them from the stream.',
  body_line_end: 'The signed body and the sent body differ by a trailing line end. Sign the exact bytes that are sent.',
  body_trimmed:
    'The body was signed without the white space or byte order mark at its start or end. Sign the exact bytes that are sent.',
  body_line_breaks:
    'The signed body and the sent body differ in their line breaks (CR LF and LF). Sign the exact bytes that are sent, and keep proxies from changing them.',
  body_reencoded:
    'The signed JSON and the sent JSON have the same content but different bytes: the body was parsed and serialized again after signing. Sign the exact bytes that are sent.',
  body_form_decoded:
    'The digest was computed over the decoded form fields, but the body is sent encoded. Sign the encoded bytes, or send JSON as the body itself.',
  body_charset:
    'The digest was computed over the text in another character set. Sign the exact bytes that are sent, in UTF-8.',
  digest_differs:
    'The digest is well formed, but none of the usual mistakes explains the difference: most likely the sender has another secret. Set the same secret on both sides and check again; if the digest still differs, check whether a proxy changes the body.',
  body_too_large:
    'The signature is well formed but does not match, and the body is larger than REJECTION_BODY_BYTES_MAX, so that Weir did not diagnose it. Compare the secrets; if they are equal, raise that setting and have the sender repeat the request.',
  body_too_complex:
    'The body is over the bounds of its scheme and was not checked: forms 1,000 fields and 131,072 bytes (16 fields: 524,288), Mailgun 262,144 bytes, JSON 1,048,576 bytes. Real senders stay far below: check who sends this, or send less in one request.',
  scheme_stripe:
    'This is a signature of Stripe, over a timestamp and the body, and the webhook is set to another scheme. Set the signature scheme of the webhook to stripe.',
  scheme_slack:
    'This is a signature of Slack, over a version, a timestamp and the body, and the webhook is set to another scheme. Set the signature scheme of the webhook to slack.',
  scheme_zoom:
    'This is a signature of Zoom, over a version, a timestamp and the body, and the webhook is set to another scheme. Set the signature scheme of the webhook to zoom.',
  scheme_standard_webhooks:
    'This is a signature by Standard Webhooks, over an id, a timestamp and the body, and the webhook is set to another scheme. Set the signature scheme of the webhook to standard-webhooks, or to svix for headers that begin with svix-.',
  scheme_shopify:
    'This is a signature of Shopify, over the body, in base64, and the webhook is set to another scheme. Set the signature scheme of the webhook to shopify.',
  scheme_paddle:
    'This is a signature of Paddle, over a timestamp and the body, and the webhook is set to another scheme. Set the signature scheme of the webhook to paddle.',
  scheme_github_sha1:
    'This is GitHub’s old signature with SHA-1 alone; with a secret, GitHub sends X-Hub-Signature-256 as well. Check whether a proxy removes that header, or update an old sender. For Intercom, which signs with SHA-1 only, set the signature scheme to intercom.',
  scheme_gitlab:
    'GitLab sends its secret token in a header and no signature, and the webhook is set to another scheme. Set the signature scheme of the webhook to gitlab-token.',
  scheme_twilio:
    'This is a signature of Twilio, over the URL and the form fields, and the webhook is set to another scheme. Set the signature scheme of the webhook to twilio.',
  scheme_ed25519:
    'The request is signed with a private key (Ed25519), as by Discord, and the webhook is set to another scheme. Set the signature scheme of the webhook to discord, and its public key.',
  scheme_other:
    'This is a signature of another scheme than that of the webhook. Set the signature scheme of the webhook to the scheme of the sender.',
  verifies_now:
    'The request verifies with the current secret and signature header. Accept it, or have the sender repeat it.',
} as const;

export type RejectionReason = keyof typeof rejectionReasons;

export const rejectionReasonNames = Object.keys(rejectionReasons) as [RejectionReason, ...RejectionReason[]];

/** Reasons of rejections in a few words, as pages and issues show them. The API has the names. */
const titles: Readonly<Record<RejectionReason, string>> = {
  header_missing: 'no signature',
  header_other: 'signature in another header',
  header_repeated: 'signature header sent twice',
  secret_sent: 'secret sent in a header',
  malformed_empty: 'empty signature header',
  malformed_no_prefix: 'no prefix before the digest',
  malformed_prefix: 'wrong prefix before the digest',
  malformed_around: 'other text around the signature',
  malformed_base64: 'digest in base64 instead of hex',
  malformed_algorithm: 'another hash algorithm',
  malformed_length: 'digest of another length',
  malformed: 'malformed signature',
  key_kind: 'other kind of key',
  signature_encoding: 'signature in another encoding',
  clock_apart: 'time differs too much',
  previous_secret: 'previous secret',
  other_webhook: 'secret of another webhook',
  secret_space: 'spaces around the secret',
  secret_decoded: 'sender decodes the secret',
  secret_undecoded: 'sender does not decode the secret',
  secret_mode: 'secret of another mode',
  url_differs: 'another URL signed',
  secret_unset: 'sender has no secret',
  not_hmac: 'digest is not an HMAC',
  body_empty: 'empty body signed',
  body_line_end: 'last line end differs',
  body_trimmed: 'body signed without its white space',
  body_line_breaks: 'line breaks differ',
  body_reencoded: 'JSON serialized again after signing',
  body_form_decoded: 'decoded form fields signed',
  body_charset: 'another character set signed',
  digest_differs: 'wrong secret, most likely',
  body_too_large: 'body too large to diagnose',
  body_too_complex: 'body too large to check',
  scheme_stripe: 'signature of Stripe',
  scheme_slack: 'signature of Slack',
  scheme_zoom: 'signature of Zoom',
  scheme_standard_webhooks: 'signature by Standard Webhooks',
  scheme_shopify: 'signature of Shopify',
  scheme_paddle: 'signature of Paddle',
  scheme_github_sha1: 'SHA-1 signature of GitHub alone',
  scheme_gitlab: 'token of GitLab',
  scheme_twilio: 'signature of Twilio',
  scheme_ed25519: 'signed with a private key',
  scheme_other: 'signature of another scheme',
  verifies_now: 'verifies now',
};

/** `spaces around the secret`; the name itself for a reason that this version does not know. */
export function reasonTitle(reason: string): string {
  return (titles as Readonly<Record<string, string>>)[reason] ?? reason.replaceAll('_', ' ');
}
