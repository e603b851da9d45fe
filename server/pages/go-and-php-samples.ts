/** Code in Go and PHP that sends a signed request. */
import { headersOf, joined, type Name, type Plan, usesTime } from './sample-plan.ts';

export function go(plan: Plan): string {
  const key = {
    text: 'key := []byte(os.Getenv("WEIR_SECRET"))',
    hex: 'key, _ := hex.DecodeString(os.Getenv("WEIR_SECRET"))',
    base64: 'key, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(os.Getenv("WEIR_SECRET"), "whsec_"))',
  }[plan.secret];
  const signed = plan.content.length > 0;
  const usesHex = signed && (plan.encoding === 'hex' || plan.secret === 'hex');
  const usesBase64 = signed && (plan.encoding === 'base64' || plan.secret === 'base64');
  const encode = plan.encoding === 'hex' ? 'hex.EncodeToString' : 'base64.StdEncoding.EncodeToString';
  const modules = [
    ...(signed ? ['crypto/hmac'] : []),
    ...(plan.idHeader === null ? [] : ['crypto/rand']),
    ...(signed ? [`crypto/${plan.hash === 'sha1' ? 'sha1' : plan.hash}`] : []),
    ...(usesBase64 ? ['encoding/base64'] : []),
    ...(usesHex ? ['encoding/hex'] : []),
    'fmt',
    'net/http',
    ...(signed ? ['os'] : []),
    ...(usesTime(plan) ? ['strconv'] : []),
    'strings',
    ...(usesTime(plan) ? ['time'] : []),
  ];
  const newHash = { sha256: 'sha256.New', sha1: 'sha1.New', sha512: 'sha512.New' }[plan.hash];
  const lines = [
    `body := ${JSON.stringify(plan.body)}`,
    ...(plan.idHeader === null
      ? []
      : ['random := make([]byte, 16)', 'rand.Read(random)', 'id := fmt.Sprintf("%x", random)']),
    ...(usesTime(plan)
      ? [`timestamp := strconv.FormatInt(time.Now().${plan.milliseconds ? 'UnixMilli' : 'Unix'}(), 10)`]
      : []),
    ...(signed
      ? [
          key,
          `mac := hmac.New(${newHash}, key)`,
          `mac.Write([]byte(${joined(plan.content, ' + ', (name) => name)}))`,
          `signature := ${encode}(mac.Sum(nil))`,
        ]
      : []),
    `request, _ := http.NewRequest("POST", "${plan.url}", strings.NewReader(body))`,
    'request.Header.Set("Content-Type", "application/json")',
    ...headersOf(plan, ' + ', (name) => name).map(([name, value]) => `request.Header.Set("${name}", ${value})`),
    'response, err := http.DefaultClient.Do(request)',
    'if err != nil {',
    '\tpanic(err)',
    '}',
    'fmt.Println(response.Status)',
  ];
  return [
    'package main',
    '',
    'import (',
    ...modules.map((name) => `\t"${name}"`),
    ')',
    '',
    'func main() {',
    ...lines.map((line) => `\t${line}`),
    '}',
  ].join('\n');
}

export function php(plan: Plan): string {
  const key = {
    text: `getenv('WEIR_SECRET')`,
    hex: `hex2bin(getenv('WEIR_SECRET'))`,
    base64: `base64_decode(preg_replace('/^whsec_/', '', getenv('WEIR_SECRET')))`,
  }[plan.secret];
  const variable = (name: Name) => `$${name}`;
  const digest = `hash_hmac('${plan.hash}', ${joined(plan.content, ' . ', variable)}, $key`;
  const headers = headersOf(plan, ' . ', variable).map(([name, value]) => `"${name}: " . ${value}`);
  return [
    '<?php',
    `$body = ${phpText(plan.body)};`,
    ...(plan.idHeader === null ? [] : ['$id = bin2hex(random_bytes(16));']),
    ...(usesTime(plan)
      ? [`$timestamp = (string) ${plan.milliseconds ? '(int) (microtime(true) * 1000)' : 'time()'};`]
      : []),
    ...(plan.content.length === 0
      ? []
      : [
          `$key = ${key};`,
          plan.encoding === 'hex' ? `$signature = ${digest});` : `$signature = base64_encode(${digest}, true));`,
        ]),
    // Streams need no extension; curl is a package of its own in most distributions.
    '$request = stream_context_create(["http" => [',
    '    "method" => "POST",',
    `    "header" => [${['"Content-Type: application/json"', ...headers].join(', ')}],`,
    '    "content" => $body,',
    '    "ignore_errors" => true,',
    ']]);',
    `$response = file_get_contents(${phpText(plan.url)}, false, $request);`,
    'echo $http_response_header[0], "\\n", $response, "\\n";',
  ].join('\n');
}

function phpText(text: string): string {
  return `'${text.replace(/[\\']/g, '\\$&')}'`;
}
