/** Parts that the packages of the client share. They are not exported, and may change at any time. */
package io.tidegate.internal;
