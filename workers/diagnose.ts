/** Thread entry point: finds out why signatures were refused. Pure: requests in, findings out, nothing kept. */
import { type Diagnosis, diagnose, type RefusedRequest } from '../server/signatures/diagnosis/diagnose.ts';
import { type KeptRequest, keptRequest } from '../server/signatures/diagnosis/kept-request.ts';

/** Holds no secret, whatever the request held. */
export interface Diagnosed {
  diagnosis: Diagnosis;
  kept: KeptRequest;
}

export default function diagnoseAll(requests: readonly RefusedRequest[]): Diagnosed[] {
  return requests.map(withBuffers).map((request) => ({ diagnosis: diagnose(request), kept: keptRequest(request) }));
}

/** Buffers arrive in a message as bare Uint8Arrays. */
function withBuffers({ body, secrets, others, ...rest }: RefusedRequest): RefusedRequest {
  return {
    ...rest,
    body: body && bufferOf(body),
    secrets: secrets.map(({ bytes, expired }) => ({ bytes: bufferOf(bytes), expired })),
    others: others.map(({ id, secrets }) => ({ id, secrets: secrets.map(bufferOf) })),
  };
}

function bufferOf({ buffer, byteOffset, length }: Uint8Array): Buffer {
  return Buffer.from(buffer as ArrayBuffer, byteOffset, length);
}
