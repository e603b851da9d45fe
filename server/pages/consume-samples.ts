/** Code that claims deliveries and acknowledges them: the start of an agent, in several languages. */
import type { Install } from '../http/client-package.ts';
import type { Sample } from './send-samples.ts';

/**
 * @param api URL of the API, FRONTEND_PUBLIC_API_URL. The credential is read from WEIR_CREDENTIAL.
 * @param install the client package; null: the page shows no address of it
 */
export function consumeSamples(api: string, install: Install | null): Sample[] {
  return [
    { language: 'curl', code: curl(api) },
    { language: 'Node.js', code: node(api, install) },
    { language: 'Python', code: python(api) },
  ];
}

function curl(api: string): string {
  return `API=${api}/api/v1/agent
member() { grep -o "\\"$1\\":\\"[^\\"]*\\"" | cut -d'"' -f4 | head -1; }
TOKEN=$(curl -sS -X POST "$API/session" -H "Authorization: Bearer $WEIR_CREDENTIAL" | member access_token)
CLAIM=$(curl -sS "$API/deliveries/claim" -H "Authorization: Bearer $TOKEN" \\
  -H 'Content-Type: application/json' -d '{"max":1,"lease_seconds":60,"wait_seconds":20}')
echo "$CLAIM"
RECEIPT=$(echo "$CLAIM" | member receipt)
[ -z "$RECEIPT" ] || curl -sS "$API/deliveries/ack" -H "Authorization: Bearer $TOKEN" \\
  -H 'Content-Type: application/json' -d "{\\"receipts\\":[\\"$RECEIPT\\"]}"`;
}

/** As in the guide Agents. It runs until SIGTERM or SIGINT. */
function node(api: string, install: Install | null): string {
  return `// This server hands out the package. In the npm registry "weir" is another program.
${install === null ? '// npm install https://ADDRESS_OF_WEIR/client.tgz' : `// npm install ${install.address}\n// ${install.integrity}`}
import { Agent } from "weir/client";

const agent = new Agent({ url: "${api}", credential: process.env.WEIR_CREDENTIAL });
const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => stop.abort());

await agent.run(
  async ({ event }) => {
    console.log(event.webhook_name, event.id, event.text());
  },
  { concurrency: 4, signal: stop.signal },
);`;
}

function python(api: string): string {
  return `import json, os, urllib.request

API = "${api}/api/v1/agent"

def post(path, body, token):
    headers = {"authorization": "Bearer " + token, "content-type": "application/json"}
    request = urllib.request.Request(API + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as response:
        return json.load(response)

token = post("/session", {}, os.environ["WEIR_CREDENTIAL"])["access_token"]
order = {"max": 1, "lease_seconds": 60, "wait_seconds": 20}
for delivery in post("/deliveries/claim", order, token)["deliveries"]:
    print(delivery["event"]["webhook_name"], delivery["event"]["id"], delivery["event"].get("body"))
    post("/deliveries/ack", {"receipts": [delivery["receipt"]]}, token)`;
}
