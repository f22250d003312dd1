<?php

declare(strict_types=1);

namespace Tidegate;

use JsonSerializable;
use Stringable;
use Tidegate\Errors\InvalidRequestError;
use Tidegate\Http\Json;

/**
 * An integer that does not fit into an `int`, such as an unsigned one of 64 bits. It is in payloads and results as the
 * server has sent it, and is sent as a number. `json_encode()` writes it as a string.
 */
final class BigInteger implements JsonSerializable, Stringable
{
    /** @throws InvalidRequestError if the text is no integer */
    public function __construct(public readonly string $digits)
    {
        if (preg_match('/^-?(?:0|[1-9]\d*)$/D', $digits) !== 1) {
            throw InvalidRequestError::found('a big integer has only digits, and perhaps a sign', 'payload');
        }
    }

    public function __toString(): string
    {
        return $this->digits;
    }

    public function jsonSerialize(): string
    {
        return Json::markIfEncoding($this->digits);
    }
}
