<?php

declare(strict_types=1);

namespace Tidegate;

use DateTimeInterface;
use Generator;
use stdClass;
use Tidegate\Errors\TidegateError;
use Tidegate\Http\Pages;
use Tidegate\Http\Request;
use Tidegate\Http\Sender;

/** The API keys of the namespace. Needs the scope `admin`. Documents are as the server has written them. */
final class Keys
{
    /** @internal */
    public function __construct(private readonly Sender $sender)
    {
    }

    /**
     * Creates a key. Only this answer has its `secret`.
     *
     * @param non-empty-list<string> $scopes of `publish`, `consume`, `read` and `admin`
     * @param string $description its purpose, for people
     * @throws TidegateError
     */
    public function create(array $scopes, string $description, ?DateTimeInterface $expiresAt = null): stdClass
    {
        $body = ['scopes' => $scopes, 'description' => $description];
        if ($expiresAt !== null) {
            $body['expires_at'] = Instant::toMs($expiresAt);
        }
        return $this->createFrom($body);
    }

    /**
     * Creates a key from the fields of the server.
     *
     * @param array<string, mixed>|stdClass $fields
     * @throws TidegateError
     */
    public function createFrom(array|stdClass $fields): stdClass
    {
        // Without a secret of its own a repetition would create a second key.
        $isRepeatable = isset(((object) $fields)->secret);
        return $this->sender->send(Request::json('POST', '/keys', (object) $fields, $isRepeatable))->document();
    }

    /**
     * All keys without their secrets, page by page.
     *
     * @return Generator<int, stdClass>
     * @throws TidegateError
     */
    public function all(): Generator
    {
        return Pages::read($this->sender, '/keys');
    }

    /**
     * Revokes a key. It is refused everywhere within a second.
     *
     * @throws TidegateError `key_not_found`
     */
    public function revoke(string $id): stdClass
    {
        return $this->sender->send(new Request('DELETE', '/keys/' . rawurlencode($id), isRepeatable: true))->document();
    }
}
