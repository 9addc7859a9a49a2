package main

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/rs/zerolog"
)

// pipes connect the worker with one program.
type pipes struct {
	input  *os.File
	said   *tail // of its standard error
	prints *tail // of its standard output; nil if it is discarded
	theirs []*os.File
}

// connect makes the pipes and gives cmd its ends. Standard output is discarded unless the log shows it.
func (r *runner) connect(cmd *exec.Cmd) (*pipes, error) {
	p := &pipes{}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p.input, p.theirs, cmd.Stdin = ours, []*os.File{theirs}, theirs
	if p.said, cmd.Stderr, err = p.listen(); err != nil {
		return nil, err
	}
	if r.log.GetLevel() > zerolog.DebugLevel {
		return p, nil
	}
	if p.prints, cmd.Stdout, err = p.listen(); err != nil {
		return nil, err
	}
	return p, nil
}

// listen makes a pipe from the program. On an error it closes all pipes.
func (p *pipes) listen() (*tail, *os.File, error) {
	ours, theirs, err := os.Pipe()
	if err != nil {
		p.handedOver()
		p.close()
		return nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	p.theirs = append(p.theirs, theirs)
	return newTail(ours), theirs, nil
}

// handedOver closes the ends that the program has inherited.
func (p *pipes) handedOver() {
	for _, file := range p.theirs {
		_ = file.Close()
	}
	p.theirs = nil
}

// close closes all pipes, even if other processes hold the other ends, and returns the ends of the outputs.
func (p *pipes) close() (said, printed string) {
	_ = p.input.Close()
	if p.said != nil {
		said = p.said.end()
	}
	if p.prints != nil {
		printed = p.prints.end()
	}
	return said, printed
}
