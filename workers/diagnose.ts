/** Thread entry point: diagnoses refused signatures. Stateless: requests in, findings out. */
import { diagnose } from '../server/model/signatures/diagnosis/diagnose.ts';
import { type KeptRequest, keptRequest } from '../server/model/signatures/diagnosis/kept-request.ts';
import type { Diagnosis, RefusedRequest } from '../server/model/signatures/diagnosis/refused.ts';
import { bufferOf } from '../server/model/signatures/json-bytes.ts';

/** Contains no secret, even if the request does. */
export interface Diagnosed {
  diagnosis: Diagnosis;
  kept: KeptRequest;
}

/** Diagnoses each request, and builds what is kept of it. */
export default function diagnoseAll(requests: readonly RefusedRequest[]): Diagnosed[] {
  return requests.map(withBuffers).map((request) => ({ diagnosis: diagnose(request), kept: keptRequest(request) }));
}

/** Restores Buffers: in a message they arrive as plain Uint8Arrays. */
function withBuffers({ body, secrets, others, ...rest }: RefusedRequest): RefusedRequest {
  return {
    ...rest,
    body: body && bufferOf(body),
    secrets: secrets.map(({ bytes, expired }) => ({ bytes: bufferOf(bytes), expired })),
    others: others.map(({ id, secrets }) => ({ id, secrets: secrets.map(bufferOf) })),
  };
}
