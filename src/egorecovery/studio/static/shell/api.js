// Requests to the app. Errors carry the server's message and status.

export class ApiError extends Error {
  constructor(status, answer) {
    super(answer.error ?? `the app answered ${status}`);
    this.status = status;
    this.answer = answer;
  }
}

async function checked(response) {
  if (response.ok) return response;
  const text = await response.text();
  let answer;
  try {
    answer = JSON.parse(text);
  } catch {
    answer = { error: text || `the app answered ${response.status}` };
  }
  throw new ApiError(response.status, answer);
}

async function reached(path, options) {
  try {
    return await checked(await fetch(path, options));
  } catch (error) {
    if (error instanceof ApiError || error.name === "AbortError") throw error;
    throw new ApiError(0, { error: "the app cannot be reached: is it still running in its terminal?" });
  }
}

export async function getJson(path, signal) {
  return (await reached(path, { signal })).json();
}

export async function getBytes(path, signal) {
  return (await reached(path, { signal })).arrayBuffer();
}

export async function postJson(path, value) {
  const headers = { "content-type": "application/json" };
  return (await reached(path, { method: "POST", headers, body: JSON.stringify(value) })).json();
}
