<?php

/**
 * Loads the classes: with Composer, or with the packages of a distribution of Linux, which are in the include path.
 */

declare(strict_types=1);

$composer = __DIR__ . '/../vendor/autoload.php';
if (is_file($composer)) {
    require_once $composer;
    return;
}

require_once 'GuzzleHttp/autoload.php';
// Of the example for Laravel.
foreach (['Illuminate/Queue/autoload.php', 'Illuminate/Events/autoload.php'] as $file) {
    if (stream_resolve_include_path($file) !== false) {
        require_once $file;
    }
}

spl_autoload_register(static function (string $class): void {
    $folders = [
        'Tidegate\\Tests\\' => __DIR__,
        'Tidegate\\Driver\\' => __DIR__ . '/../driver',
        'Tidegate\\' => __DIR__ . '/../src',
    ];
    foreach ($folders as $prefix => $folder) {
        if (str_starts_with($class, $prefix)) {
            $file = $folder . '/' . str_replace('\\', '/', substr($class, strlen($prefix))) . '.php';
            if (is_file($file)) {
                require $file;
            }
            return;
        }
    }
});
