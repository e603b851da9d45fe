/** /api/v1/openapi.json. */
import { z } from 'zod';
import { done, openOperation } from '../operation.ts';
import { sendJson } from '../serve.ts';

/** @param read returns the document as JSON */
export function openApiOperations(read: () => string) {
  return {
    showOpenApi: openOperation({
      answers: { 200: z.looseObject({ openapi: z.string().describe('OpenAPI version') }) },
      handle: async ({ exchange }) => {
        sendJson(exchange, 200, read());
        return done(200);
      },
    }),
  };
}
