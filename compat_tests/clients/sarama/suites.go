// Package suites pins sarama, whose functional tests are run, and the proxy that they need.
package suites

import (
	_ "github.com/IBM/sarama"
	_ "github.com/Shopify/toxiproxy/v2"
)
