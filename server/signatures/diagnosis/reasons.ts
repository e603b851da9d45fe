/**
 * Why a signature was refused and how to fix it, in one or two sentences for the sender or the operator. The README table is
 * generated from this table. The database domain rejection_reason has the same names.
 */
export const rejectionReasons = {
  header_missing:
    'The request carries no signature. Give the sender the secret of this webhook, and have it send sha256= and the hex HMAC-SHA256 of the body in the signature header.',
  header_other:
    'The signature stands in another header. Set signature_header of the webhook to its name, or send it in the header that the webhook expects.',
  header_repeated:
    'The signature header was sent more than once, so that nobody can say which one counts. Send it once, and look for a proxy that adds a second one.',
  secret_sent:
    'A header holds the secret itself. Change the secret, since it has travelled, and have the sender sign the body with the new one instead of sending it.',
  malformed_empty:
    'The signature header is empty. Look whether the sender has its secret, and whether it writes the digest into the header.',
  malformed_no_prefix: 'The digest lacks its prefix. Put sha256= before the 64 hex digits.',
  malformed_prefix:
    'The prefix is not exactly sha256=, in lower case with an equals sign. Write sha256= and 64 hex digits.',
  malformed_around:
    'The header holds more than one signature and nothing else. Leave out quotes, blanks, lists and other words about sha256= and the 64 hex digits.',
  malformed_base64: 'The digest is written in base64. Write it as 64 hex digits after sha256=.',
  malformed_algorithm: 'The signature was made with another algorithm. Use HMAC-SHA256 and the prefix sha256=.',
  malformed_length:
    'The digest does not have 64 hex digits; it was cut off or is of another algorithm. Send all of them.',
  malformed: 'The header does not hold a signature. It must read sha256= and 64 hex digits.',
  previous_secret:
    'The signature was made with the previous secret, whose overlap has ended. Give the sender the present secret; rotate with a longer overlap next time.',
  other_webhook:
    'The signature was made with the secret of another webhook: the sender has mixed up two addresses or two secrets. Have it send to the webhook whose secret it has, or give it the secret of this one.',
  secret_space:
    'The sender’s secret differs from the webhook’s by blanks, a line end or quotes about it. Store exactly the same characters on both sides.',
  secret_decoded:
    'The sender decodes the secret from hex or base64 before it signs. Have it use the characters of the secret as they are, or set the secret to what it uses.',
  secret_unset:
    'The sender signed with an empty or undefined secret. Look whether its setting for the secret is read at all.',
  not_hmac:
    'The digest is a plain SHA-256 of body or secret and body, or key and body changed places. Compute HMAC-SHA256 with the secret as key and the body as message.',
  body_empty:
    'The digest was computed over an empty body. Sign the bytes that are sent, before anything has read them from their stream.',
  body_line_end: 'The signed and the sent body differ by a line end at the end. Sign the exact bytes that are sent.',
  body_trimmed:
    'The body was signed without the white space or byte order mark at its start or end. Sign the exact bytes that are sent.',
  body_line_breaks:
    'The signed and the sent body differ in their line breaks (CR LF and LF). Sign the exact bytes that are sent, and keep proxies from changing them.',
  body_reencoded:
    'The JSON that was signed says the same in other bytes than the one that was sent: it was parsed and serialized again in between. Sign the exact bytes that are sent.',
  body_form_decoded:
    'The digest was computed over the decoded form, but the body is sent encoded. Sign the encoded bytes, or send JSON as the body itself.',
  body_charset:
    'The digest was computed over the text in another character set. Sign the exact bytes that are sent, in UTF-8.',
  digest_differs:
    'The digest is well formed and matches nothing that Weir tries: most likely the sender has another secret. Set the same one on both sides and check again; if it still differs, look for what changes the body on its way.',
  body_too_large:
    'The signature is well formed and does not match, and the body is larger than REJECTION_BODY_BYTES_MAX, so that Weir did not look further. Compare the secrets; else raise that setting and have the sender repeat it.',
  scheme_stripe:
    'This is Stripe’s way to sign, over a time and the body. Weir does not check it: put a relay between that signs the body alone, as sha256= and hex.',
  scheme_slack:
    'This is Slack’s way to sign, over a version, a time and the body. Weir does not check it: put a relay between that signs the body alone.',
  scheme_zoom:
    'This is Zoom’s way to sign, over a version, a time and the body. Weir does not check it: put a relay between that signs the body alone.',
  scheme_standard_webhooks:
    'This is the way of Standard Webhooks and Svix, over an id, a time and the body. Weir does not check it: put a relay between that signs the body alone.',
  scheme_shopify:
    'This is Shopify’s way to sign: HMAC-SHA256 of the body in base64. Weir does not check it: put a relay between that writes it as sha256= and hex.',
  scheme_paddle:
    'This is Paddle’s way to sign, over a time and the body. Weir does not check it: put a relay between that signs the body alone.',
  scheme_github_sha1:
    'This is GitHub’s old signature by SHA-1. Use X-Hub-Signature-256, which GitHub and those that follow it send as well.',
  scheme_gitlab:
    'GitLab sends its secret token in a header and signs nothing. Weir does not take that: put a relay between that signs the body.',
  scheme_twilio:
    'This is Twilio’s way to sign, over the address and the form. Weir does not check it: put a relay between that signs the body alone.',
  scheme_ed25519:
    'The request is signed with a private key (Ed25519), as Discord does it. Weir does not check it: put a relay between that signs the body with the secret.',
  verifies_now:
    'The request verifies with the secret and signature header that are in force now. Accept it, or have the sender repeat it.',
} as const;

export type RejectionReason = keyof typeof rejectionReasons;

export const rejectionReasonNames = Object.keys(rejectionReasons) as [RejectionReason, ...RejectionReason[]];
