<?php

declare(strict_types=1);

namespace Tidegate\Testing;

use stdClass;
use Tidegate\Http\Json;

/**
 * A payload or a result of the fake.
 *
 * @internal
 */
final class FakePayload
{
    public function __construct(
        public readonly string $bytes,
        public readonly string $contentType,
    ) {
    }

    /** The payload or result of an item of the wire; `null` if it has none. */
    public static function of(stdClass $item, string $name): ?self
    {
        if (property_exists($item, $name)) {
            return new self(Json::encode($item->{$name}), $item->content_type ?? 'application/json');
        }
        $base64 = $item->{"{$name}_base64"} ?? null;
        $contentType = $item->content_type ?? 'application/octet-stream';
        return $base64 === null ? null : new self(base64_decode($base64), $contentType);
    }

    /** @return array<string, mixed> the fields of a delivery */
    public function fields(): array
    {
        return Json::isContentType($this->contentType)
            ? ['payload' => Json::decode($this->bytes, false)]
            : ['payload_base64' => base64_encode($this->bytes)];
    }

    /** The value of the JSON with arrays, or the bytes of another payload. */
    public function value(): mixed
    {
        return Json::isContentType($this->contentType) ? Json::decode($this->bytes, true) : $this->bytes;
    }
}
