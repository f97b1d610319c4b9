#!/bin/sh
# Says in one line what is wrong with this machine's Java; says nothing when Spark can use it.
set -u
needed=17
install="install a Java $needed runtime (Debian and Ubuntu: openjdk-17-jre-headless; macOS: brew install openjdk@17)"

if [ -n "${JAVA_HOME:-}" ]; then
  java="$JAVA_HOME/bin/java"
  where="in JAVA_HOME ($JAVA_HOME)"
else
  java=java
  where="on the PATH"
fi

if ! command -v "$java" >/dev/null 2>&1; then
  echo "tidyberg needs Java $needed or newer to run Spark, and there is none $where: $install"
  exit 0
fi

# openjdk version "17.0.15" 2025-04-15; before Java 9 it was "1.8.0_402".
version=$("$java" -version 2>&1 | sed -n 's/^[a-z]* version "\([^"]*\)".*/\1/p' | head -n 1)
major=$(echo "$version" | sed -e 's/^1\.//' -e 's/[^0-9].*//')
if [ -z "$major" ]; then
  echo "tidyberg needs Java $needed or newer to run Spark, and the one $where does not start: $install"
elif [ "$major" -lt "$needed" ]; then
  echo "tidyberg needs Java $needed or newer to run Spark, and the one $where is $version: $install"
fi
