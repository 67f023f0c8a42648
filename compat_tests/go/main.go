// Registers schemas and reads them back with franz-go's client of schema registries.
// Usage: registryclients URL
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/sr"
)

const (
	first  = `{"type":"record","name":"User","fields":[{"name":"name","type":"string"}]}`
	second = `{"type":"record","name":"User","fields":[{"name":"name","type":"string"},` +
		`{"name":"age","type":"int","default":0}]}`
	broken = `{"type":"record","name":"User","fields":[{"name":"mail","type":"string"}]}`
)

func run(url string) error {
	ctx := context.Background()
	client, err := sr.NewClient(sr.URLs(url))
	if err != nil {
		return err
	}
	created, err := client.CreateSchema(ctx, "franz", sr.Schema{Schema: first})
	if err != nil {
		return err
	}
	if created.Version != 1 || created.ID < 1 {
		return fmt.Errorf("unexpected %+v", created)
	}
	found, err := client.SchemaByID(ctx, created.ID)
	if err != nil {
		return err
	}
	if found.Schema != first {
		return fmt.Errorf("unexpected schema %s", found.Schema)
	}
	if created, err = client.CreateSchema(ctx, "franz", sr.Schema{Schema: second}); err != nil {
		return err
	}
	if created.Version != 2 {
		return fmt.Errorf("unexpected %+v", created)
	}
	checked, err := client.CheckCompatibility(ctx, "franz", -1, sr.Schema{Schema: broken})
	if err != nil {
		return err
	}
	if checked.Is {
		return fmt.Errorf("an incompatible schema is said to be compatible")
	}
	var serde sr.Serde
	serde.Register(created.ID, struct{}{}, sr.EncodeFn(func(any) ([]byte, error) {
		return []byte("data"), nil
	}))
	data, err := serde.Encode(struct{}{})
	if err != nil {
		return err
	}
	id, rest, err := serde.DecodeID(data)
	if err != nil || id != created.ID || !bytes.Equal(rest, []byte("data")) {
		return fmt.Errorf("unexpected framing %v %v %v", id, rest, err)
	}
	for _, result := range client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatFull}, "franz") {
		if result.Err != nil {
			return result.Err
		}
	}
	versions, err := client.SubjectVersions(ctx, "franz")
	if err != nil || len(versions) != 2 {
		return fmt.Errorf("unexpected versions %v %v", versions, err)
	}
	deleted, err := client.DeleteSubject(ctx, "franz", sr.SoftDelete)
	if err != nil || len(deleted) != 2 {
		return fmt.Errorf("unexpected delete %v %v", deleted, err)
	}
	return nil
}

func main() {
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("ok")
}
