/** The exceptions of requests. */
package io.tidegate.error;
