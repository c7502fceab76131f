/* All that the pages ask of the appliance goes through here. The token lives in this variable and, so that a reload does
 * not lose it, in the session storage of this tab: never in an address, a cookie or a log. */
const KEPT_AS = 'svc-console-token';
let token = kept();
let whenRefused = () => {};

function kept() {
  try {
    return sessionStorage.getItem(KEPT_AS);
  } catch {
    return null; /* storage is switched off: the token lasts as long as the page */
  }
}

export function signedIn() {
  return token !== null;
}

export function keepToken(text) {
  token = text;
  try {
    if (text === null) {
      sessionStorage.removeItem(KEPT_AS);
    } else {
      sessionStorage.setItem(KEPT_AS, text);
    }
  } catch {
    /* as above */
  }
}

/* Called with the problem when the token is not accepted any more; the token is forgotten before. */
export function onRefusedToken(call) {
  whenRefused = call;
}

/* A refusal or failure: the members of the problem body (RFC 9457), or what the browser had to say. */
export class Problem extends Error {
  constructor(status, body, retryAfter = null) {
    super(body.title);
    Object.assign(this, { status, retryAfter, title: body.title, detail: body.detail, code: body.code,
      trace: body.trace_id, resource: body.resource });
  }

  /* It is not known, or not yet settled, how it ended: the same request may be sent once more. */
  get again() {
    return this.status === 0 || this.status >= 500 || this.status === 429 || this.code === 'idempotency_in_progress';
  }

  /* The permission that was missing; null when something else was. */
  get permission() {
    const found = this.code === 'forbidden' && /permission ([a-z]+:[a-z]+)/.exec(this.detail ?? '');
    return found ? found[1] : null;
  }
}

async function problemOf(response) {
  let body = null;
  try {
    body = await response.json();
  } catch {
    /* not ours: something between here and the appliance answered */
  }
  if (typeof body?.title !== 'string') {
    body = { title: `Answer ${response.status}`, detail: 'The answer is not one of the appliance. Something between may have given it.' };
  }
  return new Problem(response.status, body, response.headers.get('Retry-After'));
}

async function send(method, path, { body, key, signal, bearer } = {}) {
  const headers = {};
  const sent = bearer ?? token;
  if (sent !== null) {
    headers.Authorization = `Bearer ${sent}`;
  }
  if (body !== undefined) {
    headers['Content-Type'] = 'application/json';
  }
  if (key !== undefined) {
    headers['Idempotency-Key'] = key;
  }
  let response;
  try {
    response = await fetch(path, { method, headers, body, signal, cache: 'no-store', credentials: 'omit', mode: 'same-origin', redirect: 'error' });
  } catch (error) {
    if (error.name === 'AbortError') {
      throw error;
    }
    throw new Problem(0, { title: 'The appliance did not answer', detail: 'Check the connection, then try again.', code: 'no_answer' });
  }
  if (response.status === 401 && bearer === undefined) {
    const problem = await problemOf(response);
    keepToken(null);
    whenRefused(problem);
    throw problem;
  }
  return response;
}

async function json(response) {
  if (!response.ok) {
    throw await problemOf(response);
  }
  return response.json();
}

/* "/x" and { a: 'b', c: '' } make "/x?a=b". */
export function withQuery(path, parameters) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value));
  return query.size > 0 ? `${path}?${query}` : path;
}

export async function get(path, signal) {
  return json(await send('GET', path, { signal }));
}

export async function getText(path, signal) {
  const response = await send('GET', path, { signal });
  if (!response.ok) {
    throw await problemOf(response);
  }
  return response.text();
}

/* Readiness answers 503 with the same body as 200. */
export async function readiness(signal) {
  const response = await send('GET', '/readyz', { signal });
  if (response.status !== 200 && response.status !== 503) {
    throw await problemOf(response);
  }
  return response.json();
}

/* A POST that changes nothing: a preview, a qualification. */
export async function ask(path, body, signal) {
  return json(await send('POST', path, { body: body === undefined ? undefined : JSON.stringify(body), signal }));
}

function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/* Something that is to happen once. As long as it is open how it ended, trying again sends the same key, so that the
 * appliance does it once however often it is asked. */
export function command(path) {
  let open = null;
  return async (body) => {
    const text = body === undefined ? undefined : JSON.stringify(body);
    if (open === null || open.text !== text) {
      open = { text, key: newKey() };
    }
    try {
      const answer = await json(await send('POST', path, { body: text, key: open.key }));
      open = null;
      return answer;
    } catch (problem) {
      if (!problem.again) {
        open = null;
      }
      throw problem;
    }
  };
}

/* Does this token open anything? Whether it may read records does not matter here: only 401 says no. */
export async function tryToken(text) {
  const response = await send('GET', '/api/v1/audit/records?limit=1', { bearer: text });
  if (!response.ok && response.status !== 403) {
    throw await problemOf(response);
  }
}

function nameIn(disposition) {
  const found = /filename="([A-Za-z0-9._-]+)"/.exec(disposition ?? '');
  return found ? found[1] : null;
}

/* The answer as it is, byte for byte; onProgress(bytes so far). Pieces are handed to the browser as blobs, which it can
 * keep on disk. An answer that was cut off is a problem, and nothing of it is kept. */
export async function download(path, { onProgress, signal }) {
  const response = await send('GET', path, { signal });
  if (!response.ok) {
    throw await problemOf(response);
  }
  const PIECE = 8 << 20;
  const type = response.headers.get('Content-Type') ?? 'application/octet-stream';
  const reader = response.body.getReader();
  let blob = new Blob([], { type });
  let chunks = [], held = 0, total = 0;
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      chunks.push(next.value);
      held += next.value.length;
      total += next.value.length;
      if (held >= PIECE) {
        blob = new Blob([blob, ...chunks], { type });
        chunks = [];
        held = 0;
      }
      onProgress(total);
    }
  } catch (error) {
    if (error.name === 'AbortError') {
      throw error;
    }
    throw new Problem(0, { title: 'The download ended early', detail: 'The appliance or the connection cut it off. Nothing was saved: try again.', code: 'cut_off' });
  }
  return { blob: new Blob([blob, ...chunks], { type }), name: nameIn(response.headers.get('Content-Disposition')), size: total };
}
