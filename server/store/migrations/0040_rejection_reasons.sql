-- Reasons of the bounds on bodies, and of the two kinds of keys of Standard Webhooks.

alter domain rejection_reason drop constraint rejection_reason_check;
alter domain rejection_reason add constraint rejection_reason_check check (
  value in (
    'header_missing', 'header_other', 'header_repeated', 'secret_sent', 'malformed_empty', 'malformed_no_prefix',
    'malformed_prefix', 'malformed_around', 'malformed_base64', 'malformed_algorithm', 'malformed_length', 'malformed',
    'key_kind', 'signature_encoding', 'clock_apart', 'previous_secret', 'other_webhook', 'secret_space', 'secret_decoded',
    'secret_undecoded', 'secret_unset', 'secret_mode', 'not_hmac', 'url_differs', 'body_empty', 'body_line_end', 'body_trimmed',
    'body_line_breaks', 'body_reencoded', 'body_form_decoded', 'body_charset', 'digest_differs', 'body_too_large',
    'body_too_complex', 'scheme_stripe', 'scheme_slack', 'scheme_zoom', 'scheme_standard_webhooks', 'scheme_shopify',
    'scheme_paddle', 'scheme_github_sha1', 'scheme_gitlab', 'scheme_twilio', 'scheme_ed25519', 'scheme_other', 'verifies_now'
  )) not valid;
alter domain rejection_reason validate constraint rejection_reason_check;
