# Every client of kgo's tests logs in with the user of KGO_TEST_SCRAM, where only two of them do so.
/^	if testCert != nil {$/i\
	if saslScram != nil {\
		opts = append(opts, SASL(saslScram))\
	}
