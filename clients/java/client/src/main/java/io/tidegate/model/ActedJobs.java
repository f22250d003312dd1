package io.tidegate.model;

/**
 * What an action on many jobs has done.
 *
 * @param matched how many jobs were found
 * @param changed how many were changed
 */
public record ActedJobs(long matched, long changed) {}
