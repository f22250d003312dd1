<?php

/** The driver of the conformance suite of clients. */

declare(strict_types=1);

use Tidegate\Driver\Driver;

require __DIR__ . '/../tests/autoload.php';

// The standard output is for answers.
ini_set('display_errors', 'stderr');

exit((new Driver())->run());
