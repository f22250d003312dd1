<?php

declare(strict_types=1);

namespace Tidegate;

/** Whether a request that failed has changed something. */
enum Applied: string
{
    /** Nothing was changed. */
    case No = 'no';

    /** The change was made. It is less durable than requested. */
    case Yes = 'yes';

    /** The connection broke, or the time was over. The change may have been made. */
    case Unknown = 'unknown';
}
