/**
 * Text without the secrets in it. Values of fewer than four characters stay: removing those would leave nothing to read.
 */
export function redact(text: string, secrets: readonly string[]): string {
  return secrets
    .flatMap((secret) => secret.split(/\r?\n/))
    .map((secret) => secret.trim())
    .filter((secret) => secret.length >= 4)
    .sort((a, b) => b.length - a.length) // one may be a part of another
    .reduce((shown, secret) => shown.replaceAll(secret, '***'), text);
}
