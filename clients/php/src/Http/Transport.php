<?php

declare(strict_types=1);

namespace Tidegate\Http;

use Tidegate\Errors\ConnectionError;
use Tidegate\Loop\Future;

/** Sends requests. {@see GuzzleTransport} is the default; {@see Psr18Transport} uses any other client. */
interface Transport
{
    /**
     * Starts a request. The future has an {@see Answer} of any status, or a {@see ConnectionError}.
     *
     * @param float $timeLimit the most seconds until the whole answer must be there
     */
    public function start(Request $request, float $timeLimit): Future;

    /**
     * Sends a request and waits for the answer, without a look at other requests.
     *
     * @throws ConnectionError
     */
    public function exchange(Request $request, float $timeLimit): Answer;

    /** Carries requests on. Waits up to so many seconds if nothing happens; 0 does not wait. */
    public function tick(float $seconds): void;
}
