// Package suites pins the packages of franz-go whose own tests are run.
package suites

import (
	_ "github.com/twmb/franz-go/pkg/kadm"
	_ "github.com/twmb/franz-go/pkg/kgo"
)
