/** Lines of management commands and what they print, for printed.test.ts. */
import { DAY_MS } from '../../../../server/base/time/durations.ts';
import { PASSWORD } from '../../../helpers/people.ts';

/** Secrets that lines give. */
export const SECRET = 'kept between the two of us 7f3a';
export const GIVEN = 'given by me';
/** The body of the requests that are rejected. */
export const BODY = 'signed with another secret';
/** The content of scheme.json. */
export const definition = { algorithm: 'hmac-sha256', header: 'x-sig', encoding: 'hex', content: '{body}' };

const inDays = (days: number) => ({
  asymmetricMatch: (at: string) => Math.abs((Date.parse(at) - Date.now()) / DAY_MS - days) < 0.1,
});
const items = (...list: object[]) => ({ items: list });
/** The whole output, a part of it, or members of the document of `--json`. */
export type Row = [line: string, printed: string | RegExp | object, more?: { code?: number; stdin?: string }];

export const users: readonly Row[] = [
  ['user list', 'No users yet. Create one: npx --no weir user add --email ada@example.org --role administrator\n'],
  [
    'user add --email ada@example.org --role administrator',
    /^User ada@example\.org created with role administrator\.\n {2}ID {8}(?<ada>[0-9a-f-]{36})\n {2}Password {2}(?<secretOfAda>([0-9a-z]{4}-){5}[0-9a-z]{4}) {3}\(shown once\)\n$/,
  ],
  [
    'user add --email bob@example.org --role viewer --password-stdin',
    /^User bob@example\.org created with role viewer\.\n {2}ID {8}(?<bob>[0-9a-f-]{36})\n$/,
    { stdin: `${PASSWORD}\n` },
  ],
  ['user list', /^ID +EMAIL +ROLE +STATE +LAST SIGN-IN\n(.+\n)*\{bob\} +bob@example\.org +viewer +active +never\n/],
  ['user disable BOB@EXAMPLE.ORG', 'bob@example.org: disabled.\n'],
  ['user list', /\{bob\} .* disabled +never\n/],
  ['user enable {bob}', 'bob@example.org: enabled.\n'],
  ['user set-role bob@example.org operator', 'bob@example.org: operator.\n'],
  [
    'user password bob@example.org',
    /^bob@example\.org: password changed, and all sessions ended\.\n {2}API tokens revoked: 0\n {2}Password {2}(?<secretOfBob>\S{29}) {3}\(shown once\)\n$/,
  ],
  [
    'user reset-password bob@example.org --password-stdin --no-revoke-tokens',
    'bob@example.org: password changed, and all sessions ended.\n',
    { stdin: PASSWORD },
  ],
];

export const tokens: readonly Row[] = [
  [
    "token add --email BOB@example.org --name ' laptop '",
    /^Token laptop created for bob@example\.org\.\n {2}ID {7}(?<token>[0-9a-f-]{36})\n {2}Role {5}operator\n {2}Expires {2}TIME\n {2}Token {4}(?<secretToken>wu_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}) {3}\(shown once\)\n$/,
  ],
  [
    'token add --email bob@example.org --name ci --role viewer --expires-days 7 --json',
    { user_id: '{bob}', role: 'viewer', expires_at: inDays(7) },
  ],
  ['token add --email ada@example.org --name ci --expires-days never --json', { expires_at: null }],
  ['token add --email nobody@example.org --name a', /no active user has the email nobody@example\.org/, { code: 1 }],
  [
    'token list --email bob@example.org',
    /^ID +USER +NAME +KIND +ROLE +STATE +EXPIRES +LAST USED\n.* ci +API +viewer .*\n\{token\} .* laptop +API +operator +active +TIME +never\n$/,
  ],
  ['token revoke {token}', '{token}: revoked.\n'],
  ['token revoke {token}', '{token}: revoked.\n'],
  ['token list --email bob@example.org', /\{token\} .* revoked /],
  ['user disable bob@example.org', 'bob@example.org: disabled.\n'],
  ['token add --email bob@example.org --name a', /no active user has the email bob@example\.org/, { code: 1 }],
  ['user remove bob@example.org', 'bob@example.org: removed.\n'],
];

export const webhooks: readonly Row[] = [
  [
    'webhook add --name shop --generate-secret',
    /^Webhook shop created\.\n {2}URL {5}https:\/\/weir\.example\/in\/(?<shop>[0-9a-f-]{36})\n {2}Secret {2}(?<secretOfShop>[0-9a-f]{64}) {3}\(shown once\)\n(.*\n)*.*Try it: {2}npx --no weir send https:\S+ --secret [0-9a-f]{64}\n(.*\n)* {2}npx https:\S+\/client-\S+\.tgz listen https:\/\/weir\.example --token-file FILE --webhook /,
  ],
  // The suggested command is one that the rate limit does not delay.
  ['webhook add --name a --generate-secret --rate-limit 6000', /Try it: .* --secret [0-9a-f]{64} --github-examples\n/],
  [
    'webhook add --name b --generate-secret --scheme github --rate-limit 6000',
    /Try it: .* --scheme github --github-examples\n/,
  ],
  ['webhook add --name c --generate-secret --scheme github --rate-limit 60', /Try it: .* --scheme github\n/],
  ['webhook add --name d', /Try it: .*\/in\/[0-9a-f-]{36} --unsigned\n/],
  ["webhook add --name given --secret 'given by me'", /^Webhook given created\.\n/],
  ['webhook add --name given --secret-stdin --json', { has_secret: true }, { stdin: `${GIVEN}\n` }],
  ['webhook disable shop', 'shop: disabled.\n'],
  ['webhook show SHOP', /no webhook has the id or name SHOP; see: weir webhook list\n$/, { code: 1 }],
  ['webhook enable {shop}', '{shop}: enabled.\n'],
  ['webhook remove given', /[0-9a-f-]{36}[\s\S]*[0-9a-f-]{36}/, { code: 2 }],
  [
    "webhook update shop --description 'what it is for' --dedupe-header X-Id --expect-every-seconds 60 --rate-limit 7 --json",
    { name: 'shop', dedupe_header: 'x-id', expect_every_seconds: 60, rate_limit_max: 7, has_secret: true },
  ],
  ['webhook show shop', /^name +shop$(.*\n)*^description +what it is for$/m],
  [
    'webhook list',
    /^ID +NAME +STATE +SCHEME +SIGNED +RATE LIMIT +CREATED\n(.+\n)*\{shop\} +shop +enabled +sha256 +yes +7 +TIME/,
  ],
  [
    "webhook update shop --dedupe-header '' --expect-every-seconds none --rate-limit none --enabled false",
    'shop: updated.\n',
  ],
  [
    'webhook show shop --json',
    {
      ...{ dedupe_header: null, expect_every_seconds: null, rate_limit_max: null, enabled: false },
      ...{ description: 'what it is for', signature_scheme: 'sha256', has_secret: true },
    },
  ],
  [
    'webhook add --name own --scheme-file scheme.json --secret s --json',
    { signature_scheme: 'custom', scheme_definition: definition },
  ],
  ['webhook update own --scheme github --json', { signature_scheme: 'github', scheme_definition: null }],
  ['webhook rotate shop --secret-stdin', 'shop: secret rotated.\n', { stdin: GIVEN }],
  ['webhook remove own', 'own: removed.\n'],
];

export const agents: readonly Row[] = [
  [
    'agent add --name reader',
    /^Agent reader created\.\n {2}ID {10}(?<reader>[0-9a-f-]{36})\n {2}Credential {2}(?<secretOfReader>wa_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}) {3}\(shown once\)\n(.*\n)*.*: {2}npx https:\/\/weir\.example\/client-\S+\.tgz consume https:\/\/weir\.example --credential-file FILE\n$/,
  ],
  [
    'agent rotate {reader}',
    /^\{reader\}: credential rotated; the old one and all sessions are invalid\.\n {2}Credential {2}(?<secretAgain>wa_\w+) {3}\(shown once\)\n$/,
  ],
  [
    'agent rotate {reader} --overlap 3600',
    /^\{reader\}: credential rotated; the old one stays valid until TIME\.\n {2}Credential {2}(?<secretOfOverlap>wa_\w+)/,
  ],
  ['agent show {reader}', /\nOld credential +until TIME, last used never\n/],
  ['agent subscribe {reader} --webhook {crm} --webhook parcels', '{reader}: subscribed.\n'],
  ['agent unsubscribe {reader} --webhook {crm}', '{reader}: unsubscribed.\n'],
  ['agent webhooks {reader} --json', items({ webhook_id: '{parcels}', filter: null })],
  ["agent subscribe {reader} --webhook parcels --filter 'bytes > 1'", '{reader}: subscribed.\n'],
  // A filter that is not given is kept.
  ['agent subscribe {reader} --webhook parcels', '{reader}: subscribed.\n'],
  [
    'agent webhooks {reader} --filtered',
    /^WEBHOOK ID +NAME +FILTER .*\n\{parcels\} +parcels +bytes > 1 +none\n$|^[^\n]+\n\{parcels\} +parcels +bytes > 1 +none\n$/,
  ],
  ['agent update {reader} --max-leased 7 --json', { max_leased: 7 }],
  [
    'agent list',
    /^ID +NAME +STATE +WEBHOOKS +FILTERS +MAX LEASED +LAST SEEN +CREATED\n(.+\n)*\{reader\} +reader +active +1 +1 +7 +never +TIME/,
  ],
  [
    'agent show reader',
    /^Name +reader\nState +active\n(.+\n)*Max leased +7\nWebhooks +1, 1 with a filter\nLast seen +never\n[\s\S]*\n\{parcels\} +parcels +\d+ +bytes > 1\n$/,
  ],
  ["agent subscribe {reader} --webhook parcels --filter ''", '{reader}: subscribed.\n'],
  // All or nothing: the webhook that exists is not subscribed either.
  ['agent subscribe {reader} --webhook {crm} --webhook {unknown}', /no webhook has the id \{unknown\};/, { code: 1 }],
  [
    "agent subscribe {reader} --webhook {crm} --webhook {unknown} --filter 'bytes > 2'",
    /no webhook has the id \{unknown\}; see: weir webhook list/,
    { code: 1 },
  ],
  ['agent webhooks {reader} --json', items({ webhook_id: '{parcels}', filter: null })],
];

export const events: readonly Row[] = [
  ['event list', /^TYPE +WEBHOOK .* ID\n.+\norder\.created +crm .* \{event2\}\norder\.paid .*\{event1\}\n/],
  ['event list --type order.paid --json', items({ id: '{event1}', event_type: 'order.paid' })],
  ...['--content-type text/plain', "--header 'X-Shop: north'", '--search parcel', '--webhook {parcels}'].map(
    (filter): Row => [`event list ${filter} --json`, items({ id: '{parcel}' })],
  ),
  ['event list --delivery-state none --source 127.0.0.0/8 --json', items({ id: '{parcel}' })],
  ...['--content-type text/html', "--header 'x-shop: south'", '--source 192.0.2.1', '--delivery-state pending'].map(
    (filter): Row => [`event list ${filter} --json`, items()],
  ),
  ['event list --search parcel --from 2000-01-01T00:00:00Z --json', items({ id: '{parcel}' })],
  ['event list --search parcel --to 2000-01-01T00:00:00Z --json', items()],
  [
    "event export --content-type text/plain --header 'X-Shop: north' --source 127.0.0.0/8 --delivery-state none --search parcel",
    /^\{"id":"\{parcel\}".*"body":"a parcel".*\}\n$/,
  ],
  [
    'event export --webhook crm',
    /^.*"body":"\{\\"type\\":\\"order\.created\\"\}".*\n.*"event_type":"order\.paid".*\n.*"body":"\{\}".*\n$/,
  ],
  ['event export --limit 2', /^.*\n.*\n$/],
  [
    'event export --format csv --webhook crm',
    /^id,.*\r\n\{event2\},.*\r\n[^,]*,order\.paid,.*\r\n.*\r\n$|^.*\r\n.*\r\n[^,]*,order\.paid,.*\r\n.*\r\n$/,
  ],
  [
    'history --webhook parcels --hours 49',
    /^FROM \(UTC\) +ACCEPTED +DUPLICATES +REJECTED +LIMITED +BYTES\n(.+\n)*\d{4}-\d\d-\d\d +13 +1 +2 +3 +\d+\n/,
  ],
];

export const deliveries: readonly Row[] = [
  [
    'delivery show {dead}',
    /^Event +\{event\d\}\n[\s\S]*\nAgent +test \S+ \(\{worker\}\)\nState +dead\n[\s\S]*\nTIME +AGENT ADDRESS +OUTCOME +DURATION +REASON\nTIME +127\.0\.0\.1 +rejected +\d+\.\d{3} s +timeout calling \\x1b\[31mCRM\n$/,
  ],
  ['delivery list --agent {worker}', /\n\{dead\} +\{event\d\} +test \S+ +dead /],
  ['delivery dead --webhook crm', /^DELIVERIES +AGENTS +LAST +REASON\n3 +1 +TIME +timeout calling \\x1b\[31mCRM\n$/],
  [
    'delivery dismiss --all-agents --webhook crm',
    /^3 deliveries are dismissed\.\nUndo: weir delivery undo (?<action>[0-9a-f-]{36})\n$/,
  ],
  ['delivery dead --webhook crm', 'No dead letters.\n'],
  ['delivery undo {action}', '3 deliveries are restored.\n'],
  ['delivery dismiss {dead}', '1 delivery is dismissed.\n'],
  ['delivery replay --agent {worker} --reason another --json', { replayed: 0, more: false, action_id: null }],
  ['delivery replay --agent {worker} --state dismissed', /^1 delivery is pending again\.\n/],
  ['delivery show {dead}', /\nState +pending\n[\s\S]*\nClaimable +TIME\n/],
];

export const rejected: readonly Row[] = [
  ['rejection list --webhook mistyped', /^ID +WEBHOOK[^\n]+REASON\n\{rejection0\}[^\n]+ digest_differs\n$/],
  [
    'rejection show {rejection0}',
    /^digest_differs: The digest is well formed.*\nFix: Paste the sender’s secret\n[\s\S]*\nx-hub-signature-256: \(sha256= and 64 hex digits\)\n/,
  ],
  ['rejection show {rejection0} --body', BODY],
  ['rejection show {rejection0} --json', { body_preview: BODY }],
  ['rejection recheck {rejection0}', /^weir: \{rejection0\}: digest_differs\. /, { code: 1 }],
  ['webhook rotate mistyped --secret-stdin --overlap-seconds 0', 'mistyped: secret rotated.\n', { stdin: SECRET }],
  ['rejection recheck {rejection0} --json', { verified: true, reason: 'verifies_now' }],
  ['rejection accept {rejection0}', /^\{rejection0\}: stored as event (?<accepted>[0-9a-f-]{36})\n$/],
  ['rejection accept {rejection0}', '{rejection0}: stored as event {accepted}\n'],
  [
    'rejection fix {rejection1}',
    'weir: give --use-header, --scheme or --secret-stdin; see: weir rejection show\n',
    { code: 2 },
  ],
  ['rejection fix {rejection1} --use-header --json', { checked: 1, verified: 1 }],
];

export const audit: readonly Row[] = [
  ['audit list --limit 1', /^NUMBER +AT +WHO +FROM +ACTION +TARGET\n\d+ +TIME +command \S+ +rejection\.\w+ .*\n$/],
  ['audit list --action agent. --target {reader} --limit 1 --json', items({ action: 'agent.update' })],
  ['audit list --action agent.create --actor {reader} --json', items()],
  [
    'audit list --from 2000-01-01T00:00:00Z --target {ada} --action user.create',
    /^NUMBER.*\n\d+ +TIME .* user\.create +ada@example\.org \(\{ada\}\)\n$/,
  ],
  ['audit list --to 2000-01-01', 'No matching entries.\n'],
  ['audit verify', /^All \d+ entries are valid\.\n {2}Head {2}(?<head>[0-9a-f]{64})\n$/],
  ['audit verify --head {head}', /^All \d+ entries are valid\./],
  [
    `audit verify --head ${'ab'.repeat(32)}`,
    /^weir: The chain does not contain the given head: .* Valid entries before it: \d+\.\n$/,
    { code: 1 },
  ],
];
