<?php

declare(strict_types=1);

namespace Tidegate;

use SensitiveParameter;
use Tidegate\Errors\InvalidRequestError;

/**
 * The address of a namespace, and the key for it.
 *
 * @internal
 */
final class Connection
{
    private const NAMESPACE = '/^[A-Za-z0-9_-]{1,255}$/';

    private function __construct(
        /** The URL up to the namespace. */
        public readonly string $base,
        #[SensitiveParameter]
        private readonly string $key,
    ) {
    }

    /**
     * Arguments that are `null` are taken from the environment.
     *
     * @throws InvalidRequestError if one is missing or not valid
     */
    public static function of(?string $url, #[SensitiveParameter] ?string $key, ?string $namespace): self
    {
        $url = rtrim($url ?? self::variable('TIDEGATE_URL', 'URL'), '/');
        $key = trim($key ?? self::variable('TIDEGATE_KEY', 'key'));
        $namespace ??= self::variable('TIDEGATE_NAMESPACE', 'namespace');
        self::checkUrl($url);
        if (preg_match('/^[\x21-\x7E]+$/', $key) !== 1) {
            throw InvalidRequestError::found('the API key has characters that no API key has', 'key');
        }
        if (preg_match(self::NAMESPACE, $namespace) !== 1) {
            $detail = "\"$namespace\" is no namespace: it has 1 to 255 letters, digits, `-` and `_`";
            throw InvalidRequestError::found($detail, 'namespace');
        }
        return new self("$url/v1/$namespace", $key);
    }

    /** @return array<string, string> the headers of each request */
    public function headers(string $userAgent): array
    {
        return ['Authorization' => "Bearer $this->key", 'User-Agent' => $userAgent];
    }

    /** Without the key, which is a secret. */
    public function __debugInfo(): array
    {
        return ['base' => $this->base];
    }

    private static function variable(string $name, string $what): string
    {
        $value = getenv($name);
        return $value !== false && $value !== ''
            ? $value
            : throw InvalidRequestError::found("the client has no $what: give it, or set the variable $name");
    }

    private static function checkUrl(string $url): void
    {
        $parts = parse_url($url) ?: [];
        $isServer = in_array($parts['scheme'] ?? '', ['http', 'https'], true) && ($parts['host'] ?? '') !== '';
        if (!$isServer || isset($parts['user']) || isset($parts['query']) || isset($parts['fragment'])) {
            // The URL may have a password, so it is not shown.
            $detail = 'the URL names no server: write it like https://tidegate.example.com, without a user, a query or '
                . 'a fragment';
            throw InvalidRequestError::found($detail, 'url');
        }
    }
}
