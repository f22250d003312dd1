<?php

declare(strict_types=1);

namespace Tidegate\Testing;

use RuntimeException;
use Tidegate\Http\Answer;
use Tidegate\Http\Json;

/**
 * An error answer of the fake.
 *
 * @internal
 */
final class FakeProblem extends RuntimeException
{
    public function __construct(
        private readonly int $status,
        private readonly string $problemCode,
        string $detail,
    ) {
        parent::__construct($detail);
    }

    /** @return array<string, mixed> */
    public function document(): array
    {
        return [
            'type' => "urn:tidegate:problem:$this->problemCode",
            'title' => $this->problemCode,
            'status' => $this->status,
            'code' => $this->problemCode,
            'detail' => $this->getMessage(),
            'instance' => 'fake',
            'applied' => 'no',
        ];
    }

    public function answer(): Answer
    {
        $headers = ['content-type' => 'application/problem+json'];
        return new Answer($this->status, $headers, Json::encode($this->document()));
    }
}
